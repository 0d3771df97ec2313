package accel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/must"
)

// A trace keeps to the Trace Event Format: named processes and threads, complete events that do not
// overlap on a thread, and pairs of arrow ends that lie within events. Tracing changes no time.
func TestTrace(t *testing.T) {
	for _, f := range []topo.Fabric{topo.Whole, topo.Flits} {
		m := machine(t, topo.Torus, 2, 2, f)
		s := New(m, ccl.Default())
		plain := must.Get(reduceOn(s, 256))(t)
		if err := WriteTrace(io.Discard, plain); err == nil || !strings.Contains(err.Error(), "set System.Trace") {
			t.Errorf("a result without a trace: %v", err)
		}
		s = New(m, ccl.Default())
		s.Trace = true
		r := must.Get(reduceOn(s, 256))(t)
		if r.Crit != plain.Crit {
			t.Errorf("%s: traced it takes %v, else %v", f, r.Crit, plain.Crit)
		}
		var text bytes.Buffer
		must.Do(t, WriteTrace(&text, r))
		messages := 4 * (15 + 15) // each cube's sum to the root and the result back
		messages += 4 * 2         // once round the rows and the columns of SIPs
		checkTrace(t, text.Bytes(), messages)
		for what, change := range map[string][2]string{
			"an arrow without an end":     {`"ph":"f"`, `"ph":"s"`},
			"an unknown phase":            {`"ph":"X"`, `"ph":"Y"`},
			"a queue that is not emptied": {`"args":{"messages":0}`, `"args":{"messages":1}`},
			"a queue of less than none":   {`"args":{"messages":1}`, `"args":{"messages":-1}`},
			"a count that is no number":   {`"args":{"messages":1}`, `"args":{"messages":"1"}`},
		} {
			planted := text.Bytes()
			if at := bytes.LastIndex(planted, []byte(change[0])); at >= 0 {
				planted = slices.Concat(planted[:at], []byte(change[1]), planted[at+len(change[0]):])
			}
			if traceFaults(planted, messages) == nil {
				t.Errorf("%s is not seen", what)
			}
		}
	}
}

func checkTrace(t *testing.T, text []byte, messages int) {
	t.Helper()
	for _, fault := range traceFaults(text, messages) {
		t.Error(fault)
	}
}

func traceFaults(text []byte, messages int) (faults []string) {
	var trace struct {
		Unit   string       `json:"displayTimeUnit"`
		Events []traceEvent `json:"traceEvents"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&trace); err != nil || trace.Unit != "ns" {
		return []string{"the file is not a trace"}
	}
	named := map[[2]int]bool{} // threads; thread 0 is the process
	spans := map[[2]int][][2]float64{}
	ends := map[int]string{}
	queues := map[string]float64{} // messages left in each queue
	links := 0
	for _, e := range trace.Events {
		at := [2]int{e.PID, e.TID}
		switch e.Phase {
		case "M":
			name, _ := e.Args["name"].(string)
			named[at] = name != ""
			continue
		case "C":
			count, number := e.Args["messages"].(float64)
			if e.TS == nil || !number || len(e.Args) != 1 || count < 0 {
				faults = append(faults, "a counter without its value: "+e.Name)
			}
			queues[fmt.Sprint(e.PID, e.Name)] = count
		case "X":
			if e.TS == nil || e.Dur == nil || *e.TS < 0 || *e.Dur <= 0 {
				faults = append(faults, "an event without its times: "+e.Name)
				continue
			}
			spans[at] = append(spans[at], [2]float64{*e.TS, *e.TS + *e.Dur})
			if strings.Contains(e.Cat, " -> ") {
				links++
			}
		case "s", "f":
			ends[e.ID] += e.Phase
			within := false
			for _, s := range spans[at] {
				within = within || s[0] <= *e.TS && *e.TS <= s[1]
			}
			if !within {
				faults = append(faults, "an end of an arrow is in no event")
			}
		default:
			faults = append(faults, "an event of the unknown phase "+e.Phase)
		}
		if !named[at] || !named[[2]int{e.PID, 0}] {
			faults = append(faults, "an event on a thread without a name")
		}
	}
	for _, of := range spans {
		for i := 1; i < len(of); i++ {
			if of[i][0] < of[i-1][1]-1e-9 {
				faults = append(faults, "events of one thread overlap")
			}
		}
	}
	for _, pair := range ends {
		if pair != "sf" {
			faults = append(faults, "an arrow has the ends "+pair)
		}
	}
	for name, left := range queues {
		if left != 0 {
			faults = append(faults, fmt.Sprintf("%v messages are left in %s", left, name))
		}
	}
	if len(queues) == 0 {
		faults = append(faults, "no queue")
	}
	if len(ends) != messages || links == 0 {
		faults = append(faults, "not every message has an arrow, or no link an event")
	}
	return faults
}
