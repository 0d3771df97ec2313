package run

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// gpuPolls is the time between two looks at the GPUs during a measurement. NVML itself takes a sample every sixth of a
// second or less often.
const gpuPolls = 500 * time.Millisecond

// muchGPU is the share of a GPU from which another program disturbs a measurement, in per cent.
const muchGPU = 1

// gpuWatch observes the GPUs of this host: the programs that use them, and whether they lower their clocks. A nil
// gpuWatch observes nothing.
type gpuWatch struct {
	read func() cuda.Use
	own  func(pid int) bool // reports whether a living process belongs to this run

	mu   sync.Mutex
	ours map[int]bool // every process of this run that was seen; NVML may list it shortly after its end
	busy map[int]int  // the share that other processes used last, in per cent
}

// newGPUWatch returns a watch, or nil if NVML does not list processes.
func newGPUWatch() *gpuWatch {
	w := cuda.NewWatcher()
	if w == nil {
		return nil
	}
	return &gpuWatch{read: w.Read, own: func(pid int) bool { return descends(hostinfo.Root(), pid, os.Getpid()) },
		ours: map[int]bool{}, busy: map[int]int{}}
}

// mpsServer is the program through which ranks share a GPU. Its clients are listed too.
const mpsServer = "nvidia-cuda-mps-server"

// look returns the other program that uses a GPU most, if any does, and why clocks are held down. fresh is false for
// the first look of a measurement, which only ends NVML's record of the time before.
func (w *gpuWatch) look(fresh bool) (text string, share int, held cuda.Hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	use := w.read()
	for _, p := range use.Processes {
		if w.own(p.PID) {
			w.ours[p.PID] = true
		}
		if w.ours[p.PID] || p.Name == mpsServer {
			continue
		}
		if fresh && p.Busy > 0 || p.Busy > w.busy[p.PID] {
			w.busy[p.PID] = p.Busy
		}
		if busy := w.busy[p.PID]; busy >= muchGPU && busy > share {
			share, text = busy, fmt.Sprintf("%v used %d %% of the GPU", p, busy)
		}
	}
	for pid := range w.busy {
		if !slices.ContainsFunc(use.Processes, func(p cuda.Process) bool { return p.PID == pid }) {
			delete(w.busy, pid)
		}
	}
	return text, share, use.Held
}

// gpuSample collects what the watch sees during one measurement.
type gpuSample struct {
	watch      *gpuWatch
	stop, done chan struct{}

	text  string
	share int
	held  cuda.Hold
}

// start looks at the GPUs before a measurement, and then again and again until its end.
func (w *gpuWatch) start() *gpuSample {
	if w == nil {
		return nil
	}
	s := &gpuSample{watch: w, stop: make(chan struct{}), done: make(chan struct{})}
	s.look(false)
	s.held = 0 // from the work before
	go func() {
		defer close(s.done)
		for {
			select {
			case <-s.stop:
				s.look(true)
				return
			case <-time.After(gpuPolls):
				s.look(true)
			}
		}
	}()
	return s
}

func (s *gpuSample) look(fresh bool) {
	text, share, held := s.watch.look(fresh)
	if share > s.share {
		s.text, s.share = text, share
	}
	s.held |= held
}

// end looks at the GPUs once more and records what was seen.
func (s *gpuSample) end(load *journal.Load) {
	if s == nil {
		return
	}
	close(s.stop)
	<-s.done
	load.GPU, load.GPUSlowed, load.GPUPowerCap = s.text, s.held.Faults(), s.held&cuda.HeldByPower != 0
}

// descends reports whether a process is ancestor or one of its descendants. Ended processes, and those that are not
// visible from here, are not.
func descends(root fs.FS, pid, ancestor int) bool {
	const deepest = 100
	for range deepest {
		if pid == ancestor {
			return true
		}
		text, err := fs.ReadFile(root, fmt.Sprintf("proc/%d/stat", pid))
		if err != nil {
			return false
		}
		fields := hostinfo.StatFields(strings.TrimSpace(string(text)))
		if len(fields) < 2 {
			return false
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil || pid <= 1 {
			return false
		}
	}
	return false
}
