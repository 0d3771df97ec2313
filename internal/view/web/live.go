package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/report"
)

// runState is the progress of a run.
type runState struct {
	Outcome   string           `json:"outcome"`
	Done      int              `json:"done"`
	Planned   int              `json:"planned"` // 0 if unknown
	OK        int              `json:"ok"`
	Failed    int              `json:"failed"`
	Rows      int              `json:"rows"` // recorded so far
	Elapsed   float64          `json:"elapsed"`
	Remaining *float64         `json:"remaining,omitempty"` // estimated seconds; nil until there is an estimate
	Current   []current        `json:"current,omitempty"`
	Launch    string           `json:"launch,omitempty"` // the folder with the latest output
	Ranks     []rankTail       `json:"ranks,omitempty"`
	Failures  []report.Failure `json:"failures,omitempty"` // the latest
}

// current is a point that has started and has no row yet.
type current struct {
	Point   string  `json:"point"`
	Trial   int     `json:"trial,omitempty"`
	Seconds float64 `json:"seconds"`
}

// rankTail is the end of a rank's output.
type rankTail struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

const (
	maxCurrent     = 8
	maxLastFailed  = 3
	maxRankTails   = 16
	tailBytes      = 1500
	liveEvery      = 500 * time.Millisecond
	listEvery      = time.Second
	maxLogListings = 5000 // entries of a log folder that are read
)

// newState returns the progress of a run. The caller adds the outcome and the output.
func newState(r *journal.Run, now time.Time) runState {
	d := dataset.Of(r)
	done, planned := d.Progress()
	counts := d.Rows.Counts()
	s := runState{Done: done, Planned: planned, OK: counts[journal.OK],
		Failed: counts[journal.Failed] + counts[journal.Timeout], Rows: len(r.Rows)}
	start, recorded := r.Header.Time, 0
	if n := len(r.Headers); n > 0 {
		start = r.Headers[n-1].Time // when the run was last resumed
	}
	last := start
	for i := range r.Rows {
		if t := r.Rows[i].Time; t.After(start) {
			recorded++
			last = t
		}
	}
	s.Elapsed = max(0, now.Sub(start).Seconds())
	if r.End != nil {
		s.Elapsed = r.End.Seconds
	} else if left := planned - done; recorded > 0 && left > 0 {
		// Assume that the remaining points take as long as those so far, and subtract the
		// time that the current point has already taken.
		each := last.Sub(start).Seconds() / float64(recorded)
		remaining := max(0, each*float64(left)-max(0, min(now.Sub(last).Seconds(), each)))
		s.Remaining = &remaining
	}
	for _, b := range r.Unfinished() {
		if len(s.Current) == maxCurrent {
			break
		}
		name := cmp.Or(b.Point, "point "+b.Key)
		s.Current = append(s.Current, current{name, b.Trial, max(0, now.Sub(b.Time).Seconds())})
	}
	for i := len(r.Rows) - 1; i >= 0 && len(s.Failures) < maxLastFailed; i-- {
		if r.Rows[i].Status.Bad() {
			s.Failures = append(s.Failures, report.NewFailure(&r.Rows[i]))
		}
	}
	return s
}

// state returns the progress of a run.
func (s *store) state(b *cachedJournal, id string) (out runState, err error) {
	err = s.use(b, func(j *journal.Journal) error {
		r, err := j.Find(id)
		if err != nil {
			return notFound{err}
		}
		out = newState(r, time.Now())
		recorded := ""
		if r.End != nil {
			recorded = r.End.Outcome
		}
		out.Outcome = b.outcome(r.ID(), recorded)
		id = r.ID()
		return nil
	})
	if err == nil && out.Outcome == running {
		out.Launch, out.Ranks = tails(b.path, id)
	}
	return out, err
}

// tails returns the ends of the output of a run's latest launch. os.Root keeps
// symbolic links from leaving the run's folder.
func tails(dir, id string) (launch string, out []rankTail) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", nil
	}
	defer root.Close()
	logs := path.Join("logs", id)
	launches := names(root, logs)
	if len(launches) == 0 {
		return "", nil
	}
	launch = path.Join(logs, slices.Max(launches))
	files := names(root, launch)
	// The shorter name first: rank2.out comes before rank10.out.
	slices.SortFunc(files, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	for _, name := range files {
		if text := fileTail(root, path.Join(launch, name)); text != "" && len(out) < maxRankTails {
			out = append(out, rankTail{name, text})
		}
	}
	return launch, out
}

// names returns the first names in a folder, in no order.
func names(root *os.Root, dir string) []string {
	f, err := root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0) // a pipe is an error, and not waited for
	if err != nil {
		return nil
	}
	defer f.Close()
	list, _ := f.Readdirnames(maxLogListings) // on an error, show the names read so far
	return list
}

// fileTail returns the end of a regular file, or "" if it cannot be read.
func fileTail(root *os.Root, name string) string {
	f, err := infile.OpenBelow(root, name, infile.Data)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := f.Tail(tailBytes)
	if err != nil {
		return ""
	}
	return report.Tail(strings.ToValidUTF8(string(text), "\uFFFD"))
}

// live streams the progress of a run, or the list of runs, whenever it changes. It ends
// when the run ends, the reader disconnects, or after streamTime.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, fmt.Sprintf("%d pages are following runs already: close one", maxStreams),
			http.StatusServiceUnavailable)
		return
	}
	next, every, name := func() (any, bool, error) {
		list, err := s.store.runs(time.After(s.patience))
		return list, false, err
	}, listEvery, "runs"
	if run := r.URL.Query().Get("run"); run != "" {
		b, id, err := s.store.open(run)
		if err != nil {
			s.fail(w, err)
			return
		}
		next, every, name = func() (any, bool, error) {
			state, err := s.store.state(b, id)
			return state, state.Outcome != running, err
		}, liveEvery, "state"
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.streamTime)
	defer cancel()
	stream(w, r.WithContext(ctx), name, every, next)
}

// stream calls next at intervals and sends its result as an event if it has changed.
func stream(w http.ResponseWriter, r *http.Request, name string, every time.Duration,
	next func() (data any, last bool, err error)) {
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	tick := time.NewTicker(every)
	defer tick.Stop()
	var sent []byte
	for {
		data, last, err := next()
		if err != nil {
			return // the browser reconnects and then gets the error
		}
		text, err := json.Marshal(data)
		if err != nil {
			return
		}
		if !bytes.Equal(text, sent) {
			// Marshalled JSON has no line breaks, so it cannot end the event early.
			if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, text); err != nil {
				return
			}
			if out.Flush() != nil {
				return
			}
			sent = text
		}
		if last {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}
