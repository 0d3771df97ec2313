package run

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/host/proc"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// remeasureGrace is the time for repeated measurements that every run has, however short it is.
const remeasureGrace = 10 * time.Second

// remeasureBudget limits the repeated measurements of disturbed points. All repetitions together take
// at most as long as the first measurements of all points, plus remeasureGrace: on a host that is always
// busy, repetition does not help and must not cost more than that.
type remeasureBudget struct {
	maxRepeats int // repetitions per point

	first, again time.Duration // time spent on first and on repeated measurements
}

// spend charges the duration of one measurement of a point to the budget. before is the number of
// earlier measurements of the same point.
func (b *remeasureBudget) spend(before int, took time.Duration) {
	if before == 0 {
		b.first += took
	} else {
		b.again += took
	}
}

// allows reports whether a point may be measured once more. measured is the number of its measurements
// so far, once is the duration of the latest one, and left is the rest of the point's time limit.
func (b *remeasureBudget) allows(measured int, once, left time.Duration) bool {
	return measured <= b.maxRepeats && once <= left && b.again+once <= b.first+remeasureGrace
}

// anyDisturbed reports whether any of a point's rows was disturbed in a way that another measurement
// may avoid. A program that claims an impossible time, for example, would claim it again.
func anyDisturbed(rows []journal.Row) bool {
	return slices.ContainsFunc(rows, func(r journal.Row) bool {
		return r.Status == journal.OK && r.Disturbed() && !slices.ContainsFunc(r.Conditions, journal.Condition.Recurs)
	})
}

// keepLeastDisturbed chooses between all measurements of a point, in the order they were made. It
// returns the rows of the least disturbed measurement, each with a record of all of them, and its
// index. A failed measurement is always the result: repetition does not hide failures.
func keepLeastDisturbed(all [][]journal.Row) (kept int, rows []journal.Row) {
	for i := range all {
		if anyBad(all[i]) {
			kept = i
			break
		}
		if anyOK(all[i]) && worst(all[i]).Compare(worst(all[kept])) < 0 {
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
					Metrics: journal.NewObject(one[j].Metrics), Samples: one[j].Samples, Conditions: one[j].Conditions,
					Kept: k == kept,
				})
			}
		}
	}
	return kept, rows
}

func anyBad(rows []journal.Row) bool {
	return slices.ContainsFunc(rows, func(r journal.Row) bool { return r.Status.Bad() })
}

func anyOK(rows []journal.Row) bool {
	return slices.ContainsFunc(rows, func(r journal.Row) bool { return r.Status == journal.OK })
}

// worst returns the disturbance of the most disturbed row.
func worst(rows []journal.Row) (d journal.Disturbance) {
	for i := range rows {
		if e := journal.DisturbanceOf(&rows[i]); rows[i].Status == journal.OK && e.Compare(d) > 0 {
			d = e
		}
	}
	return d
}

// hostWatch observes the load on this host during measurements. It also claims the host, so that two
// runs of kernbench notice each other. A nil hostWatch observes nothing.
type hostWatch struct {
	subject watchSubject
	name    string
	gpus    *gpuWatch // nil: not observed

	mu     sync.Mutex           // guards the fields below
	claim  *hostinfo.Measuring  // nil while another kernbench holds it
	taken  *hostinfo.TakenError // the holder of the claim, if it is another process
	closed bool
	users  int // runs that share this watch
}

// watchSubject describes the run to the watch.
type watchSubject struct {
	// Local means that all processes of the run are descendants of this process, so that all other
	// load is foreign.
	Local bool
	// Simulated means that load cannot disturb the run.
	Simulated bool
	// GPUs means that GPUs do the work, so that they are observed too.
	GPUs bool
}

// newHostWatch claims the host for measuring under a name.
func newHostWatch(name string, subject watchSubject) *hostWatch {
	w := &hostWatch{subject: subject, name: name, users: 1}
	w.findOthers(0)
	if subject.GPUs && subject.Local {
		w.gpus = newGPUWatch()
	}
	return w
}

// share adds a user to the watch. It reports false if the watch is already closed.
func (w *hostWatch) share() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.users++
	return true
}

// close releases the claim after its last user.
func (w *hostWatch) close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users--; w.users > 0 {
		return
	}
	w.closed = true
	if w.claim != nil {
		w.claim.Close()
	}
}

// others returns the process of another kernbench that is measuring on this host, or nil.
func (w *hostWatch) others() *hostinfo.TakenError {
	if w == nil {
		return nil
	}
	other, _ := w.findOthers(len(w.claimants()))
	return other
}

// claimants returns the processes that have asked for the claim since this process holds it.
func (w *hostWatch) claimants() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claim == nil {
		return nil
	}
	return w.claim.Others()
}

// findOthers returns another kernbench on this host: the holder of the claim, a living process that
// has asked for it, or a process that asked for it during the measurement and may have ended. before is
// the number of claimants at the start of the measurement, claimants their number now.
func (w *hostWatch) findOthers(before int) (other *hostinfo.TakenError, claimants int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claim == nil && !w.closed {
		w.claimHost()
	}
	if w.taken != nil {
		return w.taken, 0
	}
	if w.claim == nil {
		return nil, 0 // nobody can claim this host
	}
	others := w.claim.Others()
	for i, pid := range slices.Backward(others) {
		if i >= before || pid == 0 || unix.Kill(pid, 0) == nil || unix.Kill(pid, 0) == unix.EPERM {
			return &hostinfo.TakenError{PID: pid}, len(others)
		}
	}
	return nil, len(others)
}

// claimHost claims the host, or finds out which process holds the claim.
func (w *hostWatch) claimHost() {
	if w.taken != nil && w.taken.Gone != nil {
		select {
		case <-w.taken.Gone:
		default:
			return // the holder is still alive
		}
	}
	w.taken = nil
	claim, err := hostinfo.Claim(w.name)
	if !errors.As(err, &w.taken) {
		w.claim = claim
		return
	}
	if gone := w.taken.Gone; gone != nil {
		// Claim the host as soon as the holder ends, even in the middle of a measurement. Otherwise two
		// runs could measure at the same time without noticing each other.
		go func() {
			<-gone
			w.findOthers(0)
		}()
	}
}

// loadSample is the state of the host at the start of a measurement.
type loadSample struct {
	watch *hostWatch
	load  hostinfo.Load
	began time.Time
	own   uint64 // CPU time of this run's processes, in clock ticks
	known bool   // own is known

	ran, waited time.Duration        // see proc.TreeDelay
	other       *hostinfo.TakenError // another kernbench that was measuring
	claimants   int                  // see hostWatch.findOthers
	gpus        *gpuSample
}

// start samples the host's state before a measurement.
func (w *hostWatch) start() *loadSample {
	if w == nil {
		return nil
	}
	l := &loadSample{watch: w}
	if !w.subject.Simulated {
		l.other, l.claimants = w.findOthers(len(w.claimants()))
	}
	if w.subject.Local && !w.subject.Simulated {
		l.own, _, l.known = proc.TreeTicks(LoadRoot, os.Getpid())
	}
	if l.known {
		l.ran, l.waited = proc.TreeDelay(LoadRoot, os.Getpid())
	}
	l.began = time.Now()
	l.load = hostinfo.Snapshot(LoadRoot) // zero without /proc
	l.gpus = w.gpus.start()
	return l
}

// end samples the host's state after a measurement and returns the load since start, and which other programs and
// devices were seen to disturb it.
func (l *loadSample) end() (load *journal.Load, seen []journal.Condition) {
	if l == nil {
		return nil, nil
	}
	after := hostinfo.Snapshot(LoadRoot)
	u := hostinfo.Between(l.load, after)
	load = &journal.Load{Before: l.load.Load1, After: after.Load1, Busy: u.Busy, Steal: u.Steal}
	if l.known {
		if own, processes, ok := proc.TreeTicks(LoadRoot, os.Getpid()); ok {
			if share, known := hostinfo.Foreign(l.load, after, own-min(own, l.own), processes); known {
				load.Foreign = &share
			}
		}
		load.Waiting = l.waiting(after)
	} else if !l.watch.subject.Local && !l.watch.subject.Simulated {
		// Another launcher started the ranks, so their own processor time is unknown and cannot be subtracted.
		load.Waiting = l.stalled(after)
	}
	if l.other == nil && !l.watch.subject.Simulated {
		l.other, _ = l.watch.findOthers(l.claimants)
	}
	if l.other != nil {
		seen = append(seen, crowd(l.other))
	}
	return load, append(seen, l.gpus.end()...)
}

// crowd is the condition that another kernbench was measuring.
func crowd(other *hostinfo.TakenError) journal.Condition {
	if other.PID == 0 {
		return journal.Condition{Code: journal.CodeCrowd}
	}
	return journal.NewCondition(journal.CodeCrowd, journal.Named{"process": float64(other.PID)})
}

// minRun is the processor time that this run's processes must have used before their scheduling delays
// are meaningful.
const minRun = 10 * time.Millisecond

// waiting returns the share of the time in which this run's processes were ready to run and waited for
// a processor. If they have already ended, it falls back to stalled.
func (l *loadSample) waiting(after hostinfo.Load) *float64 {
	ran, waited := proc.TreeDelay(LoadRoot, os.Getpid())
	if ran, waited = ran-min(ran, l.ran), waited-min(waited, l.waited); ran >= minRun {
		share := float64(waited) / float64(ran+waited)
		return &share
	}
	return l.stalled(after)
}

// stalled returns the share of the time in which any process of this host waited for a processor, or nil if the kernel
// does not record it.
func (l *loadSample) stalled(after hostinfo.Load) *float64 {
	took := time.Since(l.began).Microseconds()
	if l.load.Stalled == 0 || took <= 0 {
		return nil
	}
	share := min(1, float64(after.Stalled-min(after.Stalled, l.load.Stalled))/float64(took))
	return &share
}
