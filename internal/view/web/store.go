package web

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// What a folder of results may hold before the rest is left out, and said to be.
const (
	maxFolders  = 20_000 // looked into
	maxJournals = 2_000
	maxDepth    = 6
	maxRows     = 500_000 // kept in memory; journals that were not asked for longest go first
)

// scanEvery is how long a list of journals stays good.
const scanEvery = time.Second

// store is the journals of a folder, read as far as they were asked for.
type store struct {
	dir   string
	bench func(string) *bench.Bench
	index index

	mu      sync.Mutex
	books   map[string]*book // by folder below dir, with slashes
	cut     bool             // there are more
	scanned time.Time
	clock   int // counts uses
}

// book is one journal. What is made of it is made under its lock.
type book struct {
	folder string // below dir, with slashes; "." is dir itself
	path   string
	used   int // under the store's lock

	mu       sync.Mutex
	follower *journal.Follower // nil: nothing of it is in memory
	journal  *journal.Journal
	infos    []runInfo          // nil: not made yet
	stamp    stamp              // of the file that infos were made from
	views    map[viewKey]*view  // made from what has been read so far
	holders  map[string]*holder // by run, who is at work
}

// stamp tells one state of a file from another.
type stamp struct {
	size int64
	time time.Time
}

func (b *book) now() (stamp, error) {
	info, err := os.Stat(filepath.Join(b.path, journal.FileName))
	if err != nil {
		return stamp{}, notFound{err}
	}
	return stamp{info.Size(), info.ModTime()}, nil
}

type holder struct {
	is bool
	at time.Time
}

func newStore(dir string, bench func(string) *bench.Bench, index index) *store {
	return &store{dir: dir, bench: bench, index: index, books: map[string]*book{}}
}

// list finds the journals that there are now, those of a path in order.
func (s *store) list() (books []*book, cut bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.scanned) > scanEvery {
		if err := s.scan(); err != nil {
			return nil, false, err
		}
		s.scanned = time.Now()
	}
	books = slices.SortedFunc(maps.Values(s.books), func(a, b *book) int { return cmp.Compare(a.folder, b.folder) })
	return books, s.cut, nil
}

// scan looks for journals below the folder. Links are not followed.
func (s *store) scan() error {
	found := map[string]bool{}
	folders := 0
	s.cut = false
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if path == s.dir {
				return err
			}
			return nil // a folder that may not be read, or has just gone
		}
		below, err := filepath.Rel(s.dir, path)
		if err != nil {
			return err
		}
		if !d.IsDir() {
			if d.Name() == journal.FileName && d.Type().IsRegular() {
				found[filepath.ToSlash(filepath.Dir(below))] = true
			}
			if s.cut = len(found) >= maxJournals; s.cut {
				return fs.SkipAll
			}
			return nil
		}
		folders++
		hidden := strings.HasPrefix(d.Name(), ".") && path != s.dir
		if hidden || slices.Contains([]string{"logs", "samples", "inside", "figures"}, d.Name()) && path != s.dir {
			return fs.SkipDir
		}
		if strings.Count(below, string(filepath.Separator)) >= maxDepth {
			return fs.SkipDir
		}
		if s.cut = folders > maxFolders; s.cut {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("looking for runs: %w", err)
	}
	for folder := range s.books {
		if !found[folder] {
			delete(s.books, folder)
		}
	}
	for folder := range found {
		if s.books[folder] == nil {
			s.books[folder] = &book{folder: folder, path: filepath.Join(s.dir, filepath.FromSlash(folder)),
				views: map[viewKey]*view{}, holders: map[string]*holder{}}
		}
	}
	return nil
}

// open finds the journal of a folder and the run that a name means: FOLDER@ID, or
// FOLDER for its latest.
func (s *store) open(name string) (*book, string, error) {
	books, _, err := s.list()
	if err != nil {
		return nil, "", err
	}
	find := func(folder string) (*book, bool) {
		return lists.First(books, func(b *book) bool { return b.folder == folder })
	}
	b, found := find(name)
	id := ""
	if at := strings.LastIndexByte(name, '@'); !found && at >= 0 {
		id = name[at+1:]
		b, found = find(name[:at])
	}
	if !found {
		return nil, "", notFound{fmt.Errorf("no run %q in this folder of results", name)}
	}
	return b, id, nil
}

// use calls work with a journal that is read as far as it goes, while nobody else
// uses it.
func (s *store) use(b *book, work func(*journal.Journal) error) error {
	s.mu.Lock()
	s.clock++
	b.used = s.clock
	s.mu.Unlock()
	err := func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if err := b.read(); err != nil {
			return err
		}
		return work(b.journal)
	}()
	s.trim(b)
	return err
}

// read takes in what is new.
func (b *book) read() error {
	if b.follower == nil {
		f, err := journal.Follow(b.path)
		if err != nil {
			return notFound{err}
		}
		b.follower = f
	}
	j, grown, err := b.follower.Next()
	if err != nil {
		b.follower, b.journal = nil, nil
		if errors.Is(err, fs.ErrNotExist) {
			return notFound{err}
		}
		return err
	}
	if b.journal = j; grown {
		clear(b.views)
		b.infos = nil
	}
	return nil
}

// rowCount is how many rows are in memory.
func (b *book) rowCount() (n int) {
	if b.journal == nil {
		return 0
	}
	for _, r := range b.journal.Runs {
		n += len(r.Rows)
	}
	return n
}

// trim gives up the journals that were not used for longest while there is too much in
// memory. One that is in use now, which has its lock, is left alone.
func (s *store) trim(keep *book) {
	s.mu.Lock()
	books := slices.SortedFunc(maps.Values(s.books), func(a, b *book) int { return cmp.Compare(b.used, a.used) })
	s.mu.Unlock()
	total := 0
	for _, b := range books {
		if b == keep || !b.mu.TryLock() {
			continue
		}
		if total += b.rowCount(); total > maxRows && b.journal != nil {
			b.follower, b.journal = nil, nil
			clear(b.views)
		}
		b.mu.Unlock()
	}
}
