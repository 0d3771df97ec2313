package run

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// remeasureGrace is the time for repeated measurements that even the shortest run has.
const remeasureGrace = 10 * time.Second

// remeasureBudget limits the repeated measurements of disturbed points. On a host that others keep
// busy, repetition does not help, so all repetitions together take at most as long as the first
// measurements of all points, plus remeasureGrace.
type remeasureBudget struct {
	maxRepeats int // repetitions per point

	first, again time.Duration
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
// so far, once is the duration of one of them, and left is the rest of the point's time limit.
func (b *remeasureBudget) allows(measured int, once, left time.Duration) bool {
	return measured <= b.maxRepeats && once <= left && b.again+once <= b.first+remeasureGrace
}

// anyDisturbed reports whether any of a point's rows was disturbed in a way that another measurement
// may avoid. A program that claims an impossible time would claim it again.
func anyDisturbed(rows []journal.Row) bool {
	return slices.ContainsFunc(rows, func(r journal.Row) bool {
		return r.Status == journal.OK && r.Quality == journal.QualityDisturbed &&
			!journal.ClaimsImpossible(&r)
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
					Metrics: journal.NewObject(one[j].Metrics), Samples: one[j].Samples, Disturbed: one[j].Disturbed(),
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
		if e := rows[i].Disturbance(); rows[i].Status == journal.OK && e.Compare(d) > 0 {
			d = e
		}
	}
	return d
}

// hostWatch observes the load on this host during measurements. A nil hostWatch observes nothing.
type hostWatch struct {
	of   watchSubject
	name string
	gpus *gpuWatch // nil: not observed

	mu     sync.Mutex
	claim  *hostinfo.Measuring  // nil while another kernbench holds it
	taken  *hostinfo.TakenError // the holder of the claim, if it is another process
	closed bool
	users  int // runs that observe with it
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
func newHostWatch(name string, of watchSubject) *hostWatch {
	w := &hostWatch{of: of, name: name, users: 1}
	w.findOthers(0)
	if of.GPUs && of.Local {
		w.gpus = newGPUWatch()
	}
	return w
}

// share adds a user to the watch. It fails if the watch is closed.
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

// others says that another kernbench is measuring on this host, or returns "".
func (w *hostWatch) others() string {
	if w == nil {
		return ""
	}
	text, _ := w.findOthers(len(w.claimants()))
	return text
}

func (w *hostWatch) claimants() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claim == nil {
		return nil
	}
	return w.claim.Others()
}

// findOthers describes another kernbench on this host: the holder of the claim, a living process that
// has asked for the claim, or any process that has asked for it since there were only before
// claimants, even if that process has ended. callers is the number of claimants so far.
func (w *hostWatch) findOthers(before int) (text string, callers int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claim == nil && !w.closed {
		w.claimHost()
	}
	if w.taken != nil {
		return w.taken.Error(), 0
	}
	if w.claim == nil {
		return "", 0 // the host cannot be claimed, by others neither
	}
	others := w.claim.Others()
	for i, pid := range slices.Backward(others) {
		if i >= before || pid == 0 || unix.Kill(pid, 0) == nil || unix.Kill(pid, 0) == unix.EPERM {
			return (&hostinfo.TakenError{PID: pid}).Error(), len(others)
		}
	}
	return "", len(others)
}

// claimHost claims the host, or finds out who holds the claim.
func (w *hostWatch) claimHost() {
	if w.taken != nil && w.taken.Gone != nil {
		select {
		case <-w.taken.Gone:
		default:
			return // the holder still lives
		}
	}
	w.taken = nil
	claim, err := hostinfo.Claim(w.name)
	if !errors.As(err, &w.taken) {
		w.claim = claim
		return
	}
	if gone := w.taken.Gone; gone != nil {
		// Claim the host as soon as the holder ends, whatever this run is doing then. Otherwise two
		// runs could measure side by side without knowing of each other.
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
	own   uint64
	known bool // own is known

	ran, waited uint64 // see hostinfo.TreeDelay
	crowd       string
	callers     int
	gpus        *gpuSample
}

// start samples the host's state before a measurement.
func (w *hostWatch) start() *loadSample {
	if w == nil {
		return nil
	}
	l := &loadSample{watch: w}
	if !w.of.Simulated {
		l.crowd, l.callers = w.findOthers(len(w.claimants()))
	}
	if w.of.Local && !w.of.Simulated {
		l.own, _, l.known = hostinfo.TreeTicks(LoadRoot, os.Getpid())
	}
	if l.known {
		l.ran, l.waited = hostinfo.TreeDelay(LoadRoot, os.Getpid())
	}
	l.began = time.Now()
	l.load = hostinfo.Snapshot(LoadRoot) // zero without /proc
	l.gpus = w.gpus.start()
	return l
}

// end samples again, and returns the load in between.
func (l *loadSample) end() *journal.Load {
	if l == nil {
		return nil
	}
	after := hostinfo.Snapshot(LoadRoot)
	u := hostinfo.Between(l.load, after)
	load := &journal.Load{Before: l.load.Load1, After: after.Load1, Busy: u.Busy, Steal: u.Steal, Crowd: l.crowd}
	if l.known {
		if own, processes, ok := hostinfo.TreeTicks(LoadRoot, os.Getpid()); ok {
			if share, known := hostinfo.Foreign(l.load, after, own-min(own, l.own), processes); known {
				load.Foreign = &share
			}
		}
		load.Waiting = l.waiting(after)
	} else if !l.watch.of.Local && !l.watch.of.Simulated {
		// Another launcher started the ranks, so their own processor time is unknown and cannot be subtracted.
		load.Waiting = l.stalled(after)
	}
	if load.Crowd == "" && !l.watch.of.Simulated {
		load.Crowd, _ = l.watch.findOthers(l.callers)
	}
	l.gpus.end(load)
	return load
}

// minRun is the processor time from which the scheduler's delays say something about the ranks.
const minRun = 10 * time.Millisecond

// waiting returns the share of the time in which our processes were ready to run and waited for a
// processor. If they have ended already, it is the share of the time in which any process waited, and
// nil if the kernel counts neither.
func (l *loadSample) waiting(after hostinfo.Load) *float64 {
	ran, waited := hostinfo.TreeDelay(LoadRoot, os.Getpid())
	if ran, waited = ran-min(ran, l.ran), waited-min(waited, l.waited); ran >= uint64(minRun) {
		share := float64(waited) / float64(ran+waited)
		return &share
	}
	return l.stalled(after)
}

// stalled returns the share of the time in which any process of this host waited for a processor, or nil if the kernel
// does not count it.
func (l *loadSample) stalled(after hostinfo.Load) *float64 {
	took := time.Since(l.began).Microseconds()
	if l.load.Stalled == 0 || took <= 0 {
		return nil
	}
	share := min(1, float64(after.Stalled-min(after.Stalled, l.load.Stalled))/float64(took))
	return &share
}
