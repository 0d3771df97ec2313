package verdict

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Disturbed is the rule for disturbed trials. If the launches of the sides alternate, disturbances hit both sides
// alike, and disturbed trials count: they widen the interval, as they should. If the sides were measured one after
// the other, a disturbance of one side would look like a change, and disturbed trials are left out. If too few
// are left for a verdict, the report shows the raw change and says so. Count and Ignore force either. A trial
// whose program printed an impossible time counts only if Count is set.
type Disturbed struct {
	Count  bool // disturbed trials always count
	Ignore bool // disturbed trials never count

	alternate bool // the launches of the sides alternate
}

func (d Disturbed) check() error {
	if d.Count && d.Ignore {
		return errors.New("--count-disturbed and --ignore-disturbed exclude each other")
	}
	return nil
}

// of returns the rule for the rows of two sides at all points.
func (d Disturbed) of(points []dataset.Matched) Disturbed {
	d.alternate = !d.Ignore && alternating(points)
	return d
}

// counts reports whether a row counts.
func (d Disturbed) counts(r *journal.Row) bool {
	return d.Count || !r.Disturbed() || d.alternate && !slices.ContainsFunc(r.Conditions, journal.Condition.Recurs)
}

// alternating reports whether the launches of the sides alternate at most points, in the order of their times. Two
// sides in sequence change once. Sides with n trials each that are launched in turns change at least n times.
func alternating(points []dataset.Matched) bool {
	type launch struct {
		at   time.Time
		side int
	}
	yes, all := 0, 0
	var launches []launch
	for _, m := range points {
		launches = launches[:0]
		least := len(m[0])
		for side, rows := range m {
			least = min(least, len(rows))
			for _, r := range rows {
				launches = append(launches, launch{r.Time, side})
			}
		}
		if least < 2 {
			continue
		}
		slices.SortStableFunc(launches, func(a, b launch) int { return a.at.Compare(b.at) })
		turns := 0
		for i, l := range launches[1:] {
			if l.side != launches[i].side && !l.at.Equal(launches[i].at) {
				turns++
			}
		}
		if all++; turns >= least {
			yes++
		}
	}
	return 2*yes > all
}

// good describes the trials that count.
func (d Disturbed) good() string {
	if d.Count || d.alternate {
		return "ok"
	}
	return "ok and undisturbed"
}

// counting returns the rows that count.
func (d Disturbed) counting(rows dataset.Set) dataset.Set { return rows.Where(d.counts) }

// maxReason limits the length of the description of a disturbance in a note, in characters.
const maxReason = 60

// note describes the disturbed rows of a side that are left out, or returns "".
func (d Disturbed) note(rows dataset.Set, side string) string {
	left := len(rows) - len(d.counting(rows))
	if left == 0 {
		return ""
	}
	first := rows[slices.IndexFunc(rows, func(r *journal.Row) bool { return !d.counts(r) })]
	return fmt.Sprintf("%s: %d of %d trials disturbed and left out (%s)", side, left, len(rows),
		first.Conditions.Strongest().Label())
}

// warning says that disturbed rows count, or returns "" if there are none or they do not.
func (d Disturbed) warning(sides ...dataset.Set) string {
	bad, all := 0, 0
	for _, rows := range sides {
		good := rows.Good()
		all += len(good)
		bad += len(good.Where(func(r *journal.Row) bool { return r.Disturbed() && d.counts(r) }))
	}
	if bad == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %s disturbed, and count: they widen the intervals (--ignore-disturbed leaves them out)", bad,
		unit.Counted(all, "row was", "rows were"))
}
