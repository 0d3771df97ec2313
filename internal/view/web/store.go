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

// Limits of a folder of results. The page says if something was left out.
const (
	maxFolders  = 20_000
	maxJournals = 2_000
	maxDepth    = 6
	maxRows     = 500_000 // kept in memory; the least recently used journals are dropped first
)

// scanEvery is how long a list of journals is valid.
const scanEvery = time.Second

// store holds the journals of a folder. A journal is read when it is first requested.
type store struct {
	dir   string
	bench func(string) *bench.Bench
	index index

	mu      sync.Mutex
	books   map[string]*book // by folder below dir, with slashes
	cut     bool             // there are more
	scanned time.Time
	clock   int // number of uses so far, to find the least recently used journal
}

// book is one journal with everything derived from it, guarded by mu.
type book struct {
	folder string // below dir, with slashes; "." is dir itself
	path   string
	used   int // time of the last use; guarded by the store's lock

	mu       sync.Mutex
	follower *journal.Follower // nil if the journal is not in memory
	journal  *journal.Journal
	infos    []runInfo          // nil until made
	stamp    stamp              // state of the file when infos was made
	views    map[viewKey]*view  // dropped when the journal grows
	holders  map[string]*holder // by run
}

// stamp identifies the state of a file.
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

// holder caches whether a process works on a run.
type holder struct {
	is bool
	at time.Time
}

func newStore(dir string, bench func(string) *bench.Bench, index index) *store {
	return &store{dir: dir, bench: bench, index: index, books: map[string]*book{}}
}

// list returns the current journals in the order of their folders.
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

// scan looks for journals below the folder. It does not follow symbolic links.
func (s *store) scan() error {
	found := map[string]bool{}
	folders := 0
	s.cut = false
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if path == s.dir {
				return err
			}
			return nil // the folder is not readable or has just been deleted
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

// open resolves the name of a run, FOLDER@ID or FOLDER for its latest run, to a journal
// and an id.
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

// use calls work with an up-to-date journal while its lock is held.
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

// read appends new records to the journal in memory.
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

// rowCount returns the number of rows in memory.
func (b *book) rowCount() (n int) {
	if b.journal == nil {
		return 0
	}
	for _, r := range b.journal.Runs {
		n += len(r.Rows)
	}
	return n
}

// trim drops the least recently used journals while too many rows are in memory. It
// skips journals that are in use, whose lock is held.
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
