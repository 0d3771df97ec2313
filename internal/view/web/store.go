package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
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

	mu       sync.Mutex
	journals map[string]*cachedJournal // by folder below dir, with slashes
	cut      bool                      // there are more
	scanned  time.Time
	clock    int // number of uses so far, to find the least recently used journal
}

// cachedJournal is one journal with everything derived from it, guarded by mu.
type cachedJournal struct {
	folder string // below dir, with slashes; "." is dir itself
	path   string
	used   int // time of the last use; guarded by the store's lock

	mu         sync.Mutex
	follower   *journal.Follower // nil if the journal is not in memory
	journal    *journal.Journal
	infos      []runInfo               // nil until made
	infosState fileState               // state of the file when infos was made
	views      map[viewKey]*view       // dropped when the journal grows
	holders    map[string]*holderCheck // by run
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
func (s *store) list() (journals []*cachedJournal, cut bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.scanned) > scanEvery {
		if err := s.scan(); err != nil {
			return nil, false, err
		}
		s.scanned = time.Now()
	}
	byFolder := func(a, b *cachedJournal) int { return cmp.Compare(a.folder, b.folder) }
	return slices.SortedFunc(maps.Values(s.journals), byFolder), s.cut, nil
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

// open resolves the name of a run, FOLDER@ID or FOLDER for its latest run, to a journal
// and an id.
func (s *store) open(name string) (*cachedJournal, string, error) {
	journals, _, err := s.list()
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

// runInfo is a run's line in the list of runs.
type runInfo struct {
	Run     string    `json:"run"` // FOLDER@ID, its name in addresses
	Folder  string    `json:"folder"`
	ID      string    `json:"id"`
	Bench   string    `json:"bench"`
	Backend string    `json:"backend"`
	Host    string    `json:"host"`
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds,omitempty"`
	Planned int       `json:"planned"` // points in all trials, 0 if unknown
	OK      int       `json:"ok"`
	Failed  int       `json:"failed"`
	Skipped int       `json:"skipped"`
	Missing int       `json:"missing"` // planned but not done, or not executed
	Outcome string    `json:"outcome"`
	Metrics []string  `json:"metrics"`
}

// The outcomes of a run without an end record.
const (
	running = "running" // a process is working on it
	stopped = "stopped" // no process is working on it
)

// runList is the list of all runs in the folder, the latest first.
type runList struct {
	Dir      string    `json:"dir"`
	Runs     []runInfo `json:"runs"`
	Problems []string  `json:"problems,omitempty"`
	Cut      bool      `json:"cut,omitempty"` // not all journals are shown
}

func (s *Server) runs(*http.Request) (any, error) { return s.store.runs() }

// runs lists all runs of the folder. Journals that cannot be read become problems.
func (s *store) runs() (runList, error) {
	out := runList{Dir: s.dir, Runs: []runInfo{}}
	journals, cut, err := s.list()
	if err != nil {
		return out, err
	}
	out.Cut = cut
	for _, b := range journals {
		infos, err := s.infos(b)
		if err != nil {
			out.Problems = append(out.Problems, b.folder+": "+err.Error())
		}
		out.Runs = append(out.Runs, infos...)
	}
	slices.SortStableFunc(out.Runs, func(a, b runInfo) int {
		return cmp.Or(b.Start.Compare(a.Start), cmp.Compare(b.ID, a.ID))
	})
	return out, nil
}

// infos returns the runs of a journal. They stay in memory when its rows do not.
func (s *store) infos(b *cachedJournal) ([]runInfo, error) {
	b.mu.Lock()
	now, err := b.fileState()
	known := b.infos != nil && b.infosState == now
	name, _, kept := s.index.entryName(b, "runs")
	if made, ok := s.index.get(name, now); err == nil && !known && kept && ok && json.Unmarshal(made, &b.infos) == nil {
		b.infosState, known = now, true
	}
	b.mu.Unlock()
	if err == nil && !known {
		err = s.use(b, func(j *journal.Journal) error {
			b.infos, b.infosState = make([]runInfo, len(j.Runs)), now
			for i, r := range j.Runs {
				b.infos[i] = summarize(b.folder, r)
			}
			if made, err := json.Marshal(b.infos); err == nil && kept {
				s.index.put(name, now, made)
			}
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := slices.Clone(b.infos)
	for i := range out {
		out[i].Outcome = b.outcome(out[i].ID, out[i].Outcome)
	}
	return out, nil
}

// summarize returns a run's line for the list. The caller sets the outcome of a run
// without an end record.
func summarize(folder string, r *journal.Run) runInfo {
	h := &r.Header
	info := runInfo{Run: folder + "@" + r.ID(), Folder: folder, ID: r.ID(), Bench: h.Bench, Backend: h.Backend,
		Host: h.Host.Hostname, Start: h.Time, Metrics: []string{}}
	done, planned := r.Progress()
	counts := r.Counts()
	info.OK, info.Failed, info.Skipped = counts[journal.OK], counts[journal.Failed]+counts[journal.Timeout],
		counts[journal.Skipped]
	info.Planned, info.Missing = planned, counts[journal.NotExecuted]+max(0, planned-done)
	for _, m := range h.Metrics {
		info.Metrics = append(info.Metrics, m.Name)
	}
	if r.End != nil {
		info.Outcome, info.Seconds = r.End.Outcome, r.End.Seconds
		if r.End.Outcome == "complete" {
			info.Missing = counts[journal.NotExecuted]
		}
	}
	return info
}

// holderEvery is how long the knowledge whether a process works on a run is valid.
const holderEvery = time.Second

// outcome tells a running run from one that was killed.
func (b *cachedJournal) outcome(id, recorded string) string {
	if recorded != "" {
		return recorded
	}
	h := b.holders[id]
	if h == nil || time.Since(h.at) > holderEvery {
		held, err := journal.HolderOf(b.path, id)
		h = &holderCheck{held != nil || err != nil, time.Now()}
		b.holders[id] = h
	}
	if h.held {
		return running
	}
	return stopped
}
