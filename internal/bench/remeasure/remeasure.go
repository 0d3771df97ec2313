// Package remeasure decides whether a point that something disturbed while it was
// measured is measured again, and which of its measurements counts; and it watches the
// host meanwhile. What disturbs is package journal's to say, how a point is measured
// package run's.
package remeasure

import (
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/result/journal"
)

// grace is the time for measuring again that every run has, however short it is.
const grace = 10 * time.Second

// Budget bounds how often and how long is measured again. On a host that others keep
// busy it helps nothing, so all of it together takes at most as long as the first
// measurements of all points did, and the grace.
type Budget struct {
	Most int // measurements of a point after its first

	first, again time.Duration
}

// Spend counts what a measurement of a point took; before is how many it had already.
func (b *Budget) Spend(before int, took time.Duration) {
	if before == 0 {
		b.first += took
	} else {
		b.again += took
	}
}

// Allows tells whether a point that has been measured so often may be once more, when
// once takes so long and so much is left of its time limit.
func (b *Budget) Allows(measured int, once, left time.Duration) bool {
	return measured <= b.Most && once <= left && b.again+once <= b.first+grace
}

// Disturbed tells whether any of a point's rows was.
func Disturbed(rows []journal.Row) bool {
	return slices.ContainsFunc(rows, func(r journal.Row) bool {
		return r.Status == journal.OK && r.Quality == journal.QualityDisturbed
	})
}

// Keep makes one result of all measurements of a point, in the order they were made:
// the rows of the least disturbed one, each with a record of all, and which one that was.
// A failure is never made up for by another measurement: it is the result.
func Keep(all [][]journal.Row) (kept int, rows []journal.Row) {
	for i := range all {
		if failed(all[i]) {
			kept = i
			break
		}
		if measured(all[i]) && worst(all[i]).Compare(worst(all[kept])) < 0 {
			kept = i
		}
	}
	if len(all) == 1 {
		return 0, all[0]
	}
	rows = slices.Clone(all[kept])
	for i := range rows {
		for k, one := range all {
			j := slices.IndexFunc(one, func(r journal.Row) bool { return r.Key == rows[i].Key && r.Status == journal.OK })
			if j >= 0 {
				rows[i].Measurements = append(rows[i].Measurements, journal.Measurement{
					Metrics: journal.NewObject(one[j].Metrics), Samples: one[j].Samples, Disturbed: one[j].Disturbed(),
					Kept: k == kept,
				})
			}
		}
	}
	return kept, rows
}

func failed(rows []journal.Row) bool {
	return slices.ContainsFunc(rows, func(r journal.Row) bool { return r.Status.Bad() })
}

func measured(rows []journal.Row) bool {
	return slices.ContainsFunc(rows, func(r journal.Row) bool { return r.Status == journal.OK })
}

// worst is the disturbance of the most disturbed row.
func worst(rows []journal.Row) (d journal.Disturbance) {
	for i := range rows {
		if e := rows[i].Disturbance(); rows[i].Status == journal.OK && e.Compare(d) > 0 {
			d = e
		}
	}
	return d
}
