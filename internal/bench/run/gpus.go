package run

import (
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/host/proc"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// gpuPollInterval is the time between two polls of the GPUs during a measurement. NVML itself samples at most about six
// times a second.
const gpuPollInterval = 500 * time.Millisecond

// minForeignGPU is the utilization of a GPU by another program, in percent, from which it counts as a disturbance.
const minForeignGPU = 1

// gpuWatch observes the GPUs of this host: the programs that use them, and whether they lower their clocks. A nil
// gpuWatch observes nothing.
type gpuWatch struct {
	read func() cuda.Use
	own  func(pid int) bool // reports whether a living process belongs to this run

	mu   sync.Mutex         // guards the fields below
	ours map[int]bool       // all processes of this run seen so far; NVML may still list one shortly after its end
	busy map[int]foreignUse // of other processes, by PID
}

// foreignUse is the latest utilization of a GPU by another process, in percent, and when it was read.
type foreignUse struct {
	percent int
	at      time.Time
}

// idleLimit is how long a program counts as using a GPU after it was last seen to. NVML has no new sample of a short
// measurement, so a single reading of 0 does not say that the program is idle.
const idleLimit = 2 * time.Second

// newGPUWatch returns a watch, or nil if NVML does not list processes.
func newGPUWatch() *gpuWatch {
	w := cuda.NewWatcher()
	if w == nil {
		return nil
	}
	return &gpuWatch{read: w.Read, own: func(pid int) bool { return proc.Descends(hostinfo.Root(), pid, os.Getpid()) },
		ours: map[int]bool{}, busy: map[int]foreignUse{}}
}

// mpsServer is the program through which ranks share a GPU. It is ignored, because NVML also lists its clients.
const mpsServer = "nvidia-cuda-mps-server"

// poll returns the foreign program that uses a GPU most, and why clocks are held down. fresh is
// false for the first poll of a measurement, whose utilization NVML recorded before the measurement.
func (w *gpuWatch) poll(fresh bool) (most cuda.Process, held cuda.Hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	use := w.read()
	maps.DeleteFunc(w.busy, func(pid int, latest foreignUse) bool {
		listed := slices.ContainsFunc(use.Processes, func(p cuda.Process) bool { return p.PID == pid })
		return !listed || time.Since(latest.at) > idleLimit
	})
	for _, p := range use.Processes {
		if w.own(p.PID) {
			w.ours[p.PID] = true
		}
		if w.ours[p.PID] || p.Name == mpsServer {
			continue
		}
		if fresh && p.Busy > 0 || p.Busy > w.busy[p.PID].percent {
			w.busy[p.PID] = foreignUse{p.Busy, time.Now()}
		}
		if busy := w.busy[p.PID].percent; busy >= minForeignGPU && busy > most.Busy {
			most = cuda.Process{PID: p.PID, Name: p.Name, Busy: busy}
		}
	}
	return most, use.Held
}

// gpuSample collects what the watch sees during one measurement.
type gpuSample struct {
	watch      *gpuWatch
	stop, done chan struct{}

	most cuda.Process // the foreign program that used a GPU most
	held cuda.Hold
}

// start polls the GPUs before a measurement and then periodically until its end.
func (w *gpuWatch) start() *gpuSample {
	if w == nil {
		return nil
	}
	s := &gpuSample{watch: w, stop: make(chan struct{}), done: make(chan struct{})}
	s.poll(false)
	s.held = 0 // caused by the work before this measurement
	go func() {
		defer close(s.done)
		for {
			select {
			case <-s.stop:
				s.poll(true)
				return
			case <-time.After(gpuPollInterval):
				s.poll(true)
			}
		}
	}()
	return s
}

func (s *gpuSample) poll(fresh bool) {
	most, held := s.watch.poll(fresh)
	if most.Busy > s.most.Busy {
		s.most = most
	}
	s.held |= held
}

// end polls the GPUs a last time and returns what was observed.
func (s *gpuSample) end() (seen []journal.Condition) {
	if s == nil {
		return nil
	}
	close(s.stop)
	<-s.done
	if s.most.Busy > 0 {
		seen = append(seen, journal.NewCondition(journal.CodeGPUUser, journal.Named{"process": float64(s.most.PID),
			"share": float64(s.most.Busy) / 100}, s.most.Name))
	}
	if why := s.held.Faults(); why != "" {
		seen = append(seen, journal.NewCondition(journal.CodeGPUSlowed, nil, why))
	}
	if s.held&cuda.HeldByPower != 0 {
		seen = append(seen, journal.Condition{Code: journal.CodeGPUPowerCap})
	}
	return seen
}
