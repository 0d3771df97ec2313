package accel

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// traceEvent is one entry of the Trace Event Format that Perfetto and chrome://tracing read.
type traceEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	Cat   string         `json:"cat,omitempty"`
	TS    *float64       `json:"ts,omitempty"`  // microseconds
	Dur   *float64       `json:"dur,omitempty"` // microseconds
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	ID    int            `json:"id,omitempty"`
	Bind  string         `json:"bp,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// WriteTrace writes the events of a launch as JSON for Perfetto (ui.perfetto.dev). The launch must have
// been made with System.Trace set. Each PE is a process: its program and its engines are threads, the
// fill levels of its receive queues are counters, and an arrow leads from every send to its receive.
// The links form one more process.
func WriteTrace(w io.Writer, r *Result) error {
	if r.Trace == nil {
		return errors.New("writing a trace: the launch was not traced: set System.Trace before it")
	}
	pids, tids := map[string]int{}, map[[2]string]int{}
	for _, s := range r.Trace.Spans {
		pids[s.Group], tids[[2]string{s.Group, s.Lane}] = 0, 0
	}
	var events []traceEvent
	for i, group := range slices.Sorted(maps.Keys(pids)) {
		pids[group] = i + 1
		events = append(events, traceEvent{Name: "process_name", Phase: "M", PID: i + 1, Args: map[string]any{"name": group}})
	}
	lanes := slices.SortedFunc(maps.Keys(tids), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for i, lane := range lanes {
		tids[lane] = i + 1
		events = append(events, traceEvent{Name: "thread_name", Phase: "M", PID: pids[lane[0]], TID: i + 1,
			Args: map[string]any{"name": lane[1]}})
	}
	us := func(t Time) *float64 { v := t.Nanoseconds() / 1e3; return &v }
	for _, s := range r.Trace.Spans {
		events = append(events, traceEvent{Name: s.Name, Phase: "X", Cat: s.Lane, TS: us(s.From), Dur: us(s.To - s.From),
			PID: pids[s.Group], TID: tids[[2]string{s.Group, s.Lane}]})
	}
	for i, a := range r.Trace.Arrows {
		at := func(phase string, lane [2]string, t Time) traceEvent {
			return traceEvent{Name: "message", Phase: phase, Cat: "message", TS: us(t), PID: pids[lane[0]], TID: tids[lane],
				ID: i + 1}
		}
		end := at("f", a.To, a.Received)
		end.Bind = "e" // bind to the enclosing receive
		events = append(events, at("s", a.From, a.Sent), end)
	}
	for _, c := range r.Trace.Counts {
		events = append(events, traceEvent{Name: c.Queue, Phase: "C", TS: us(c.At), PID: pids[c.Group],
			Args: map[string]any{"messages": c.Messages}})
	}
	out := bufio.NewWriter(w)
	if err := json.NewEncoder(out).Encode(map[string]any{"displayTimeUnit": "ns", "traceEvents": events}); err != nil {
		return fmt.Errorf("writing a trace: %w", err)
	}
	return out.Flush()
}
