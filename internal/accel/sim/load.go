package sim

import (
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/fabric"
)

// Load is what links carried over the time of a launch, from the common start on.
type Load struct {
	Bucket  event.Time  // how long each of the buckets is
	Buckets int         // how many there are
	Links   []*LinkLoad // by link; nil for one that carried nothing
}

// LinkLoad is what one link carried.
type LinkLoad struct {
	Bytes int64
	Wait  event.Time   // what flits, or whole messages, waited for it, all together
	Busy  []event.Time // by bucket: how long it was sending; those after the last are 0
}

// The bounds of a Load. Where they would be passed, two buckets become one.
const (
	MaxBuckets = 200
	maxCells   = 4 << 20 // of all links together
	firstWidth = event.Nanosecond
)

// mostRecorded is how many links a machine may have that is recorded, about 400 SIPs: to see every
// flit pass takes longer and more memory than to simulate a thousand. A test takes less.
var mostRecorded = 2 << 20

// recorder fills a Load. When the launch will end is not known, so buckets begin narrow.
type recorder struct {
	Load
	start  event.Time
	active int // links that have carried something
}

func newRecorder(links int) *recorder {
	return &recorder{Load: Load{Bucket: firstWidth, Links: make([]*LinkLoad, links)}}
}

// passed takes in a passage. What was sent before the common start is the launch's.
func (r *recorder) passed(p fabric.Passage) {
	if p.Bytes == 0 || p.From < r.start {
		return
	}
	l := r.Links[p.Link]
	if l == nil {
		l = &LinkLoad{}
		r.Links[p.Link] = l
		r.active++
	}
	l.Bytes += int64(p.Bytes)
	l.Wait += p.Wait
	from, to := p.From-r.start, p.To-r.start
	r.Buckets = max(r.Buckets, int((to+r.Bucket-1)/r.Bucket))
	for r.Buckets > min(MaxBuckets, max(1, maxCells/r.active)) {
		r.coarsen()
	}
	for from < to {
		k := int(from / r.Bucket)
		end := min(to, event.Time(k+1)*r.Bucket)
		for len(l.Busy) <= k {
			l.Busy = append(l.Busy, 0)
		}
		l.Busy[k] += end - from
		from = end
	}
}

// coarsen makes one bucket of two.
func (r *recorder) coarsen() {
	r.Bucket *= 2
	r.Buckets = (r.Buckets + 1) / 2
	for _, l := range r.Links {
		if l == nil {
			continue
		}
		half := l.Busy[:0]
		for k := 0; k < len(l.Busy); k += 2 {
			busy := l.Busy[k]
			if k+1 < len(l.Busy) {
				busy += l.Busy[k+1]
			}
			half = append(half, busy)
		}
		l.Busy = half
	}
}
