package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The test binary is also the worker.
func TestMain(m *testing.M) {
	if code, is := Maybe([]*bench.Bench{bench.New("b", body, bench.Strings("mode", "ok"))}); is {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// hangGuard bounds every wait. A test that reaches it has failed.
const hangGuard = 3 * time.Minute

func body(ctx context.Context, s *bench.State) error {
	switch mode := s.Str("mode"); mode {
	case "panic":
		panic("out of order")
	case "skip":
		return bench.Skip("not today")
	case "hang":
		time.Sleep(2 * hangGuard)
	case "heed":
		deadline, _ := ctx.Deadline()
		s.Phase(time.Until(deadline).Round(time.Second).String())
		<-ctx.Done()
		return context.Cause(ctx)
	case "wait":
		if err := s.Barrier(ctx); err != nil {
			return err
		}
	case "kinds": // the kinds of values survive the transfer
		if s.Int("size") != 4096 || s.Value("size").Kind() != point.Bytes || s.Bool("flag") != true || s.Float("x") != 2 {
			return fmt.Errorf("size %v (%v), flag %v, x %v", s.Value("size"), s.Value("size").Kind(), s.Value("flag"),
				s.Value("x"))
		}
	case "variables": // children do not inherit the worker's variables
		for _, e := range os.Environ() {
			if strings.HasPrefix(e, "KERNBENCH_") {
				return fmt.Errorf("the body sees %s", e)
			}
		}
	}
	s.Report("done", 1, "", "")
	return nil
}

// listen opens a hub for the test.
func listen(t *testing.T) *Hub {
	t.Helper()
	h := must.Get(Listen())(t)
	t.Cleanup(func() { h.Close() })
	return h
}

// next waits for the next event that is not a heartbeat.
func next(t *testing.T, h *Hub) Event {
	t.Helper()
	guard := time.After(hangGuard)
	for {
		select {
		case e := <-h.Events():
			if !e.Heartbeat {
				return e
			}
		case <-guard:
			t.Fatal("waited in vain for an event")
		}
	}
}

// start runs this binary as a worker, and waits for it at the end of the test.
func start(t *testing.T, h *Hub, shm *os.File, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), env...)
	for k, v := range h.Vars(shm != nil) {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	if shm != nil {
		cmd.ExtraFiles = []*os.File{shm}
	}
	must.Do(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd
}

// becomeReady brings a worker of one rank to the state in which it waits for tasks.
func becomeReady(t *testing.T, h *Hub, job Job) Event {
	t.Helper()
	e := next(t, h)
	if !e.Joined {
		t.Fatalf("%+v, want a worker to join", e)
	}
	must.Do(t, h.Job(e.Rank, job))
	if e = next(t, h); !e.Ready {
		t.Fatalf("%+v, want it to be ready", e)
	}
	return e
}

func job() Job { return Job{Bench: "b", Size: 1, Backend: "cpu", Measure: measure.Default()} }

func task(index int, mode string) Task {
	return Task{Index: index, Point: point.Point{{Name: "mode", Value: point.StringValue(mode)}},
		Kinds: []point.Kind{point.String}}
}

// TestConversation covers the whole life of a worker.
func TestConversation(t *testing.T) {
	h := listen(t)
	cmd := start(t, h, nil, "RANK=0", "SEEN=yes", "EMPTY=")
	j := job()
	j.Watch = []string{"SEEN", "EMPTY", "MISSING"}
	e := becomeReady(t, h, j)
	if e.Error != "" || *e.Env["SEEN"] != "yes" || *e.Env["EMPTY"] != "" || e.Env["MISSING"] != nil || len(e.Env) != 3 {
		t.Errorf("ready with %v, error %q", e.Env, e.Error)
	}
	kinds := task(4, "kinds")
	for _, c := range []point.Coord{{Name: "size", Value: point.BytesValue(4096)},
		{Name: "flag", Value: point.BoolValue(true)}, {Name: "x", Value: point.FloatValue(2)}} {
		kinds.Point, kinds.Kinds = append(kinds.Point, c), append(kinds.Kinds, c.Value.Kind())
	}
	for _, c := range []struct {
		task   Task
		status journal.Status
		reason string
	}{
		{task(0, "ok"), journal.OK, ""},
		{task(1, "panic"), journal.Failed, "panic: out of order\ngoroutine"},
		{task(2, "skip"), journal.Skipped, "not today"},
		{task(3, "variables"), journal.OK, ""},
		{kinds, journal.OK, ""},
	} {
		must.Do(t, h.Task(0, c.task))
		e := next(t, h)
		if e.Done == nil || e.Index != c.task.Index || e.Done.Status != c.status ||
			!strings.HasPrefix(e.Done.Reason, c.reason) || e.Secondary {
			t.Fatalf("task %d: %+v %+v", c.task.Index, e, e.Done)
		}
	}
	h.Quit(0)
	if e := next(t, h); !e.Closed {
		t.Errorf("%+v, want it to leave", e)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestWrongBench: a program without the bench reports an error.
func TestWrongBench(t *testing.T) {
	for _, j := range []Job{{Bench: "c", Size: 1}, {Bench: "b", Part: "x", Size: 1}, {Bench: "b", Size: 2}} {
		h := listen(t)
		cmd := start(t, h, nil, "RANK=0")
		if e := becomeReady(t, h, j); !strings.Contains(e.Error, "no bench") &&
			!strings.Contains(e.Error, "no shared memory") {
			t.Errorf("%+v: error %q", j, e.Error)
		}
		if cmd.Wait() == nil {
			t.Errorf("%+v: the worker ended well", j)
		}
	}
}

// TestSupervisorGone: a worker exits when the supervisor is gone, whatever its body is doing.
func TestSupervisorGone(t *testing.T) {
	h := listen(t)
	cmd := start(t, h, nil, "RANK=0")
	becomeReady(t, h, job())
	h.Task(0, task(0, "hang"))
	for e := (Event{}); e.Phase != "set-up"; e = <-h.Events() {
	}
	h.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(hangGuard):
		t.Error("the worker lives on")
	}
}

// TestAbort: a rank that waits for one that will not come is woken, reports the given reason, and is not
// blamed.
func TestAbort(t *testing.T) {
	shm := must.Get(syncgroup.NewShm(2))(t)
	defer shm.Close()
	h := listen(t)
	start(t, h, shm, "RANK=1")
	j := job()
	j.Size = 2
	becomeReady(t, h, j)
	h.Task(1, task(0, "wait"))
	for e := (Event{}); !e.Waiting; e = <-h.Events() { // until a heartbeat says so
	}
	h.Abort(1, "rank 0 went home")
	if e := next(t, h); e.Done == nil || e.Done.Status != journal.Failed || !e.Secondary ||
		!strings.Contains(e.Done.Reason, "rank 0 went home") {
		t.Errorf("%+v %+v", e, e.Done)
	}
}

// TestAdmission: the hub admits only clients that know the token, and each rank once.
func TestAdmission(t *testing.T) {
	h := listen(t)
	_, address, _ := strings.Cut(h.Vars(false)[addrVar], ":")
	connect := func(token string, hello any) *connection.Conn {
		conn, err := Service(token).Dial(t.Context(), "unix", address)
		if err != nil {
			return nil
		}
		t.Cleanup(func() { conn.Close() })
		conn.Send(hello) // the result shows below
		return conn
	}
	greeting := func(rank int) message { return message{Hello: &hello{Rank: rank}} }
	refused := func(what string, conn *connection.Conn) {
		if conn == nil {
			return
		}
		conn.SetReadDeadline(time.Now().Add(hangGuard))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s was not refused: %v", what, err)
		}
	}
	if connect("guess", greeting(0)) != nil || connect("", greeting(0)) != nil {
		t.Error("a wrong token was accepted")
	}
	refused("no greeting", connect(h.token, message{Event: &Event{Heartbeat: true, Phase: "x"}}))
	refused("no JSON", connect(h.token, raw("GET / HTTP/1.0")))

	right := connect(h.token, greeting(0))
	if e := next(t, h); !e.Joined || e.Rank != 0 {
		t.Fatalf("%+v, want rank 0 to join", e)
	}
	refused("a second rank 0", connect(h.token, greeting(0)))
	right.Send(message{Event: &Event{Ready: true}})
	if e := next(t, h); !e.Ready || e.Rank != 0 {
		t.Errorf("%+v: events of the first rank 0 no longer arrive", e)
	}
	connect(h.token, greeting(1))
	if e := next(t, h); !e.Joined || e.Rank != 1 {
		t.Errorf("%+v, want rank 1 to join", e)
	}
	if err := h.Task(7, task(0, "ok")); err == nil {
		t.Error("a rank that never came was given a task")
	}
}

// TestCancel: a body sees its deadline, is cancelled, and is then not blamed. The hub knows whether it has
// returned.
func TestCancel(t *testing.T) {
	h := listen(t)
	start(t, h, nil, "RANK=0")
	becomeReady(t, h, job())
	limited := task(0, "heed")
	limited.Limit = 7 * time.Second
	h.Task(0, limited)
	for e := (Event{}); e.Phase != "7s"; e = <-h.Events() {
	}
	if !h.Cancel("that will do", hangGuard) {
		t.Error("the body did not end")
	}
	if e := next(t, h); e.Done == nil || e.Done.Status != journal.Failed || !e.Secondary ||
		!strings.Contains(e.Done.Reason, "that will do") {
		t.Errorf("%+v %+v", e, e.Done)
	}
	h.Task(0, task(1, "hang"))
	if h.Cancel("that too", 10*time.Millisecond) {
		t.Error("a body that does not heed its context has ended")
	}
}

// TestNoWorker: without its variables, a program is no worker.
func TestNoWorker(t *testing.T) {
	if _, is := Maybe(nil); is {
		t.Error("this test is no worker")
	}
}
