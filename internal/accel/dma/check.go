package dma

import (
	"fmt"
	"math"
	"strings"

	"github.com/kernbench/kernbench/internal/accel/event"
)

// Check is a property that the rows must have.
type Check struct {
	Name   string   `json:"name"`
	Text   string   `json:"text"`
	Rows   int      `json:"rows"` // that it was asked of; 0 is no answer
	Faults []string `json:"faults,omitempty"`
}

// OK reports whether nothing was wrong.
func (c *Check) OK() bool { return len(c.Faults) == 0 }

func (c *Check) want(holds bool, format string, args ...any) {
	c.Rows++
	if !holds {
		c.Faults = append(c.Faults, fmt.Sprintf(format, args...))
	}
}

// Failed counts the checks that failed.
func (r *Report) Failed() (n int) {
	for i := range r.Checks {
		if !r.Checks[i].OK() {
			n++
		}
	}
	return n
}

// check asks everything of the rows.
func (r *Report) check() {
	r.Checks = []Check{
		r.each("breakdown", "the parts add up to the time, none is negative, and only what meets others queues", breaksDown),
		r.each("rate", "nothing is faster than the link or memory that has most to do", func(row *Row) string {
			if row.Time >= row.Limit {
				return ""
			}
			return fmt.Sprintf("%v ns, but %s needs %v for the bytes", row.Time, row.Bottleneck, row.Limit)
		}),
		r.each("bytes", "the links were sending exactly as long as the bytes that were asked for take",
			func(row *Row) string {
				if row.busy == row.due {
					return ""
				}
				return fmt.Sprintf("the links were sending for %v, the bytes take %v", row.busy, row.due)
			}),
		r.larger(),
		r.ordered("distance", "what is farther takes no less", idleTable,
			[]string{"pe-local-hbm", "pe-cube-near", "pe-cube-far", "pe-next-cube", "pe-far-cube"},
			[]string{"pe-local-hbm", "pe-other-sip"},
			[]string{"pe-local-hbm-write", "pe-cube-near-write", "pe-cube-far-write", "pe-next-cube-write", "pe-far-cube-write"},
			[]string{"pe-local-hbm-write", "pe-other-sip-write"}, []string{"h2d-near", "h2d-far"},
			[]string{"d2h-near", "d2h-far"}),
		r.ordered("congestion", "the more PEs meet at a memory, the longer the last takes", congestionTable,
			[]string{"one-controller-1", "one-controller-2", "one-controller-3", "one-controller-8", "all-to-one"}),
		r.matching("all-local", "PEs that read their own memory do not meet", func(row *Row) string {
			if row.Case != "all-local" || row.Queueing == 0 {
				return ""
			}
			return fmt.Sprintf("%v ns of queueing", row.Queueing)
		}, func(row *Row) bool { return row.Case == "all-local" }),
		r.matching("published", "the published reads, to the nanosecond or as near as docs/accelerator.md says", asPublished,
			func(row *Row) bool { return row.Table == publishedTable }),
	}
}

// each asks something of every row: what is wrong, or nothing.
func (r *Report) each(name, text string, fault func(*Row) string) Check {
	return r.matching(name, text, fault, func(*Row) bool { return true })
}

func (r *Report) matching(name, text string, fault func(*Row) string, of func(*Row) bool) Check {
	c := Check{Name: name, Text: text}
	for i := range r.Rows {
		if row := &r.Rows[i]; of(row) {
			what := fault(row)
			c.want(what == "", "%s, %d bytes: %s", row.Case, row.Bytes, what)
		}
	}
	return c
}

func breaksDown(row *Row) string {
	for i, part := range row.list() {
		if part < 0 {
			return fmt.Sprintf("%s is %v ns", partNames[i], part)
		}
	}
	if row.Transfers == 1 && row.Queueing != 0 {
		return fmt.Sprintf("%v ns of queueing, alone on the machine", row.Queueing)
	}
	if sum := row.Total(); sum != row.Time {
		return fmt.Sprintf("the parts are %v ns, the time is %v", sum, row.Time)
	}
	return ""
}

func asPublished(row *Row) string {
	have, want := event.Time(row.Time).Nanoseconds(), event.Time(row.Published).Nanoseconds()
	if math.Abs(math.Round(have)-want) <= row.within*want {
		return ""
	}
	return fmt.Sprintf("%v ns, published %g, which may differ by %.0f %%", row.Time, want, 100*row.within)
}

// larger: a case takes longer the more bytes it has.
func (r *Report) larger() Check {
	c := Check{Name: "size", Text: "more bytes take longer"}
	last := map[string]*Row{}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Table != sizeTable {
			continue
		}
		if before := last[row.Case]; before != nil {
			c.want(row.Time > before.Time, "%s: %d bytes take %v ns, %d bytes %v", row.Case, before.Bytes, before.Time,
				row.Bytes, row.Time)
		}
		last[row.Case] = row
	}
	return c
}

// ordered: along each list of cases, times do not fall.
func (r *Report) ordered(name, text, table string, lists ...[]string) Check {
	c := Check{Name: name, Text: text + ": " + strings.Join(lists[0], ", ")}
	times := map[string]*Row{}
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Table == table {
			times[row.Case] = row
		}
	}
	for _, list := range lists {
		var before *Row
		for _, name := range list {
			row := times[name]
			if row == nil {
				continue
			}
			if before != nil {
				c.want(row.Time >= before.Time, "%s takes %v ns, %s %v", before.Case, before.Time, row.Case, row.Time)
			}
			before = row
		}
	}
	return c
}
