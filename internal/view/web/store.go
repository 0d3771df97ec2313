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
	"sync/atomic"
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

	mu         sync.Mutex                // guards the fields below
	journals   map[string]*cachedJournal // by folder below dir, with slashes
	unreadable []problem                 // folders and files that cannot be opened
	cut        bool                      // there are more
	scanned    time.Time                 // when the folder was last scanned
	clock      int                       // number of uses so far, to find the least recently used journal
	lanes      [2]lane                   // of journals to be listed: small and large ones
}

// problem is the reason why not all runs of a folder are listed.
type problem struct {
	Folder string `json:"folder"`
	Reason string `json:"reason"`
}

// cachedJournal is one journal with everything derived from it. mu is held while the journal is read, which
// takes seconds for a large one. The list of runs and the outcomes have locks of their own, so that the first
// page never waits for mu.
type cachedJournal struct {
	folder string // below dir, with slashes; "." is dir itself
	path   string
	used   int // time of the last use; guarded by the store's lock

	mu       sync.Mutex        // guards follower, journal and views
	follower *journal.Follower // nil if the journal is not in memory
	journal  *journal.Journal
	views    map[viewKey]*view // dropped when the journal grows

	reading atomic.Pointer[journal.Follower] // not nil while the journal is read

	listMu sync.Mutex    // guards the next three fields
	listed *listing      // nil until made
	listOf fileState     // state of the file when listed was made
	making chan struct{} // closed when the next list is made; nil if none is under way

	holdersMu sync.Mutex              // guards holders
	holders   map[string]*holderCheck // by run
}

// fileState identifies the state of a file.
type fileState struct {
	size int64
	time time.Time
}

func (b *cachedJournal) fileState() (fileState, error) {
	info, err := os.Stat(filepath.Join(b.path, journal.FileName))
	if err != nil {
		return fileState{}, notFound{err}
	}
	return fileState{info.Size(), info.ModTime()}, nil
}

// holderCheck caches whether a process works on a run.
type holderCheck struct {
	held bool
	at   time.Time
}

func newStore(dir string, bench func(string) *bench.Bench, index index) *store {
	return &store{dir: dir, bench: bench, index: index, journals: map[string]*cachedJournal{}}
}

// list returns the current journals in the order of their folders.
func (s *store) list() ([]*cachedJournal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.scanned) > scanEvery {
		if err := s.scan(); err != nil {
			return nil, err
		}
		s.scanned = time.Now()
	}
	byFolder := func(a, b *cachedJournal) int { return cmp.Compare(a.folder, b.folder) }
	return slices.SortedFunc(maps.Values(s.journals), byFolder), nil
}

// scan looks for journals below the folder. It does not follow symbolic links.
func (s *store) scan() error {
	found := map[string]bool{}
	folders := 0
	s.cut, s.unreadable = false, nil
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if path == s.dir {
				return err
			}
			if !errors.Is(err, fs.ErrNotExist) { // else it has just been deleted
				s.unreadable = append(s.unreadable, problem{s.below(path), err.Error()})
			}
			return nil
		}
		below, err := filepath.Rel(s.dir, path)
		if err != nil {
			return err
		}
		if !d.IsDir() {
			switch {
			case d.Name() != journal.FileName:
			case d.Type().IsRegular():
				found[filepath.ToSlash(filepath.Dir(below))] = true
			default:
				s.unreadable = append(s.unreadable, problem{s.below(filepath.Dir(path)),
					fmt.Sprintf("%s is a %s, and only regular files are read", journal.FileName, fileKind(d.Type()))})
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
	for folder := range s.journals {
		if !found[folder] {
			delete(s.journals, folder)
		}
	}
	for folder := range found {
		if s.journals[folder] == nil {
			s.journals[folder] = &cachedJournal{folder: folder, path: filepath.Join(s.dir, filepath.FromSlash(folder)),
				views: map[viewKey]*view{}, holders: map[string]*holderCheck{}}
		}
	}
	return nil
}

// below returns the name of a folder in lists: its path below the folder of results, with slashes.
func (s *store) below(path string) string {
	rel, err := filepath.Rel(s.dir, path)
	if err != nil {
		return filepath.ToSlash(path)
	}
	return filepath.ToSlash(rel)
}

// fileKind names the type of a file that is not regular.
func fileKind(t fs.FileMode) string {
	switch {
	case t&fs.ModeSymlink != 0:
		return "symbolic link"
	case t&fs.ModeNamedPipe != 0:
		return "pipe"
	}
	return "special file"
}

// open resolves the name of a run, FOLDER@ID or FOLDER for its latest run, to a journal
// and an id.
func (s *store) open(name string) (*cachedJournal, string, error) {
	journals, err := s.list()
	if err != nil {
		return nil, "", err
	}
	find := func(folder string) (*cachedJournal, bool) {
		return lists.First(journals, func(b *cachedJournal) bool { return b.folder == folder })
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
func (s *store) use(b *cachedJournal, work func(*journal.Journal) error) error {
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
func (b *cachedJournal) read() error {
	if b.follower == nil {
		f, err := journal.Follow(b.path)
		if err != nil {
			return notFound{err}
		}
		b.follower = f
	}
	b.reading.Store(b.follower)
	j, grown, err := b.follower.Next()
	b.reading.Store(nil)
	if err != nil {
		b.follower, b.journal = nil, nil
		if errors.Is(err, fs.ErrNotExist) {
			return notFound{err}
		}
		return err
	}
	if b.journal = j; grown {
		clear(b.views)
	}
	return nil
}

// rowCount returns the number of rows in memory.
func (b *cachedJournal) rowCount() (n int) {
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
func (s *store) trim(keep *cachedJournal) {
	s.mu.Lock()
	byUse := func(a, b *cachedJournal) int { return cmp.Compare(b.used, a.used) }
	journals := slices.SortedFunc(maps.Values(s.journals), byUse)
	s.mu.Unlock()
	total := 0
	for _, b := range journals {
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
