package web

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/result/journal"
)

// listing is everything that the first page shows of one journal.
type listing struct {
	Runs   []runInfo `json:"runs"`
	Damage string    `json:"damage,omitempty"` // what could not be read
}

// lane is a queue of journals that are read in the background, one after another, so that the server uses little of
// a machine that may be measuring. Small journals have their own lane and never wait for large ones.
type lane struct {
	queue   []*cachedJournal
	working bool
}

// laneOf returns the number of the lane for a journal with this many bytes to read.
func laneOf(bytes int64) int {
	if bytes < leastIndexed {
		return 0
	}
	return 1
}

// refresh starts to list the journals that have changed since they were listed, and returns a channel for
// each one that is not listed yet. It is closed when the list is made.
func (s *store) refresh(journals []*cachedJournal) (pending []chan struct{}) {
	for _, b := range journals {
		now, err := b.fileState()
		b.listMu.Lock()
		if b.making == nil && (b.listed == nil || err != nil || b.listOf != now) {
			b.making = make(chan struct{})
			s.enqueue(b, laneOf(now.size-b.listOf.size))
		}
		if b.making != nil {
			pending = append(pending, b.making)
		}
		b.listMu.Unlock()
	}
	return pending
}

// enqueue adds a journal to a lane.
func (s *store) enqueue(b *cachedJournal, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.lanes[number]
	l.queue = append(l.queue, b)
	if !l.working {
		l.working = true
		go s.work(l)
	}
}

// work lists the journals of a lane until there are no more.
func (s *store) work(l *lane) {
	for {
		s.mu.Lock()
		if len(l.queue) == 0 {
			l.working = false
			s.mu.Unlock()
			return
		}
		b := l.queue[0]
		l.queue = l.queue[1:]
		s.mu.Unlock()
		now, made := s.makeListing(b)
		b.listMu.Lock()
		b.listed, b.listOf = made, now
		close(b.making)
		b.making = nil
		b.listMu.Unlock()
	}
}

// makeListing lists the runs of a journal, from the index if possible. It also returns the state of the file
// before it was read: if the file has grown since, it is listed again.
func (s *store) makeListing(b *cachedJournal) (fileState, *listing) {
	now, err := b.fileState()
	if err != nil {
		return now, &listing{Damage: err.Error()}
	}
	text, err := s.index.cached(b, "runs", func() (any, bool, error) {
		var made listing
		err := s.use(b, func(j *journal.Journal) error {
			made = listing{Runs: summarizeAll(b.folder, j), Damage: describeDamage(j)}
			return nil
		})
		return made, true, err
	})
	var out listing
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return now, &listing{Damage: err.Error()}
	}
	return now, &out
}

// describeDamage returns why runs or rows of a journal are missing from the list, or "" if none are.
func describeDamage(j *journal.Journal) string {
	if len(j.Runs) == 0 && len(j.Problems) == 0 {
		return "the journal has no run"
	}
	return strings.Join(damageLines(j.Problems), "; ")
}

// runList is the list of all runs in the folder, the latest first.
type runList struct {
	Dir      string    `json:"dir"`
	Runs     []runInfo `json:"runs"`
	Problems []problem `json:"problems,omitempty"`
	Cut      bool      `json:"cut,omitempty"`     // not all journals are shown
	Pending  *progress `json:"pending,omitempty"` // journals whose runs are not listed yet
}

// progress is how many journals, and how much of them, the server has read.
type progress struct {
	Journals []string `json:"journals"` // some of the journals that are not read yet
	More     int      `json:"more,omitempty"`
	Read     int64    `json:"read"` // bytes of all journals
	Bytes    int64    `json:"bytes"`
}

// patience is how long a page waits for an answer before it shows progress instead.
const patience = 500 * time.Millisecond

// maxPending is the number of unread journals that the first page names.
const maxPending = 3

// isPage reports whether a request prefers progress to waiting (RFC 7240), as our page does. Other clients
// get complete answers only.
func isPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Prefer"), "respond-async") }

// runs answers with the list of runs.
func (s *Server) runs(r *http.Request) (any, error) {
	return s.store.runs(s.timeout(r))
}

// timeout returns a channel that delivers when a request should get its progress instead of an answer.
func (s *Server) timeout(r *http.Request) <-chan time.Time {
	if !isPage(r) {
		return nil // never
	}
	return time.After(s.patience)
}

// runs lists all runs of the folder once all journals are read, or after the timeout the runs that are known.
func (s *store) runs(timeout <-chan time.Time) (runList, error) {
	out := runList{Dir: s.dir, Runs: []runInfo{}}
	journals, err := s.list()
	if err != nil {
		return out, err
	}
	for _, made := range s.refresh(journals) {
		select {
		case <-made:
			continue
		case <-timeout:
		}
		break
	}
	s.mu.Lock()
	out.Cut, out.Problems = s.cut, slices.Clone(s.unreadable)
	s.mu.Unlock()
	p := progress{}
	for _, b := range journals {
		size, l := b.size(), b.listing()
		p.Bytes += size
		if f := b.reading.Load(); l != nil {
			p.Read += size
		} else if f != nil {
			p.Read += min(f.BytesRead(), size)
		}
		switch {
		case l != nil:
			out.Runs = append(out.Runs, l.Runs...)
			if l.Damage != "" {
				out.Problems = append(out.Problems, problem{b.folder, l.Damage})
			}
		case len(p.Journals) < maxPending:
			p.Journals = append(p.Journals, b.folder)
		default:
			p.More++
		}
	}
	if len(p.Journals) > 0 {
		out.Pending = &p
	}
	slices.SortStableFunc(out.Runs, latestFirst)
	return out, nil
}

// listing returns the list of a journal's runs with their current outcomes, or nil if it was never made.
func (b *cachedJournal) listing() *listing {
	b.listMu.Lock()
	l := b.listed
	b.listMu.Unlock()
	if l == nil {
		return nil
	}
	out := listing{slices.Clone(l.Runs), l.Damage}
	for i := range out.Runs {
		out.Runs[i].Outcome = b.outcome(out.Runs[i].ID, out.Runs[i].Outcome)
	}
	return &out
}

// size returns the bytes of the journal, 0 if they are not known.
func (b *cachedJournal) size() int64 {
	now, err := b.fileState()
	if err != nil {
		return 0
	}
	return now.size
}
