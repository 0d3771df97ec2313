package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/python"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/host/proc"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/process/rankhost"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Maybe runs this process as a worker, as the guard of a worker or program, or as a helper if its environment asks for
// one, and returns when the work is done. Every main function that declares benches must call it before anything else.
func Maybe(benches []*bench.Bench) (exitCode int, isWorker bool) {
	if code, is := maybeHelper(benches); is {
		return code, true
	}
	if is, err := rankhost.MaybeGuard(os.Environ()); err != nil {
		fmt.Fprintln(os.Stderr, "kernbench:", err)
		return 1, true
	} else if is {
		return 0, true
	}
	addr := os.Getenv(addrVar)
	if addr == "" {
		return 0, false
	}
	launch.CatchUserSignals()
	w := &worker{benches: benches, addr: addr, token: os.Getenv(tokenVar), sync: os.Getenv(syncVar)}
	w.rank, _ = strconv.Atoi(os.Getenv("RANK")) // 0 without the variable
	w.local, _ = strconv.Atoi(os.Getenv("LOCAL_RANK"))
	for _, name := range []string{addrVar, tokenVar, syncVar} {
		os.Unsetenv(name)
	}
	if err := errors.Join(w.run(), dist.End()); err != nil {
		fmt.Fprintf(os.Stderr, "kernbench worker, rank %d: %v\n", w.rank, err)
		return 1, true
	}
	return 0, true
}

type worker struct {
	benches []*bench.Bench
	addr    string // of the hub
	token   string
	sync    string // kind of sync group: syncShm or syncHub
	rank    int
	local   int

	conn    *connection.Conn
	job     Job
	body    decl.Body
	metrics []journal.MetricInfo                    // declared by the bench; nil if another program has the body
	script  *python.Program                         // the program that has the body; nil if this program has it
	ranks   atomic.Pointer[[]*rank]                 // ranks of this process: one, or all of the launch
	orders  chan message                            // from the supervisor
	cancel  atomic.Pointer[context.CancelCauseFunc] // cancels the current task
}

// reachTimeout is how long a worker tries to connect. Other programs may flood the supervisor with
// connections.
const reachTimeout = 30 * time.Second

// dial connects to the hub and identifies this rank.
func (w *worker) dial(forSync bool) (*connection.Conn, error) {
	network, address, ok := strings.Cut(w.addr, ":")
	if !ok {
		return nil, fmt.Errorf("address %q: want network:address", w.addr)
	}
	conn, err := w.reach(network, address)
	// A supervisor on this host that does not answer is stopped. If it ends, this process is killed.
	for network == "unix" && errors.Is(err, connection.ErrNoAnswer) {
		conn, err = w.reach(network, address)
	}
	if err != nil {
		if network == "tcp" {
			host, _ := os.Hostname() // only for the message
			err = fmt.Errorf("%w; host %s has the network interfaces %s; choose one for the ranks with --interface",
				err, host, connection.DescribeInterfaces())
		}
		return nil, fmt.Errorf("connecting to the supervisor: %w", err)
	}
	name, _ := os.Hostname() // only for messages
	hi := &hello{Rank: w.rank, Sync: forSync, PID: os.Getpid(), Host: proc.Space(), Name: name}
	if err := conn.Send(message{Hello: hi}); err != nil {
		conn.Close()
		return nil, fmt.Errorf("greeting the supervisor: %w", err)
	}
	return conn, nil
}

func (w *worker) reach(network, address string) (*connection.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), reachTimeout)
	defer cancel()
	return Service(w.token).DialRetry(ctx, network, address)
}

// run connects to the supervisor, receives the job, joins the other ranks, reports that it is ready, and
// runs tasks until the supervisor asks it to quit.
func (w *worker) run() (err error) {
	if w.conn, err = w.dial(false); err != nil {
		return err
	}
	defer w.conn.Close()
	w.ranks.Store(&[]*rank{newRank(w, 0, nil)}) // for heartbeats while the worker joins
	w.orders = make(chan message)
	go w.listen()
	go w.sendHeartbeats()

	first := <-w.orders
	if first.Job == nil {
		return errors.New("the supervisor sent no job")
	}
	w.job = *first.Job
	ready := &Event{Ready: true, Env: readVars(w.job.Watch)}
	if err := w.join(); err != nil {
		ready.Error = err.Error()
	}
	if w.script != nil {
		defer w.script.Close()
		ready.Env = w.script.Environ()
	}
	if err := w.conn.Send(message{Event: ready}); err != nil {
		if ready.Error != "" {
			err = fmt.Errorf("%w: %s", err, ready.Error)
		}
		return err
	}
	if ready.Error != "" {
		// The supervisor ends this process when it has read the message. If the process exited now, the
		// supervisor might learn of the exit first and report that instead of the error.
		time.Sleep(connection.SilenceLimit)
		return errors.New(ready.Error)
	}
	for order := range w.orders {
		if order.Quit {
			return nil
		}
		if order.Task == nil {
			continue
		}
		if err := w.perform(order.Task); err != nil {
			return err
		}
	}
	return nil
}

// join finds the body and joins the other ranks.
func (w *worker) join() (err error) {
	groups, err := w.syncGroups()
	if err != nil {
		return err
	}
	if w.body, err = w.findBody(); err != nil {
		return err
	}
	ranks := make([]*rank, len(groups))
	for i, g := range groups {
		ranks[i] = newRank(w, i, g)
	}
	w.ranks.Store(&ranks)
	return nil
}

// findBody returns the body of the job's bench. If the body is in a Python file or another program, it
// starts that program.
func (w *worker) findBody() (body decl.Body, err error) {
	if len(w.job.Script) > 0 {
		rank := python.Rank{Rank: w.rank, Ranks: w.job.Size, Local: w.local, Backend: w.job.Backend,
			Environ: os.Environ(), Watch: w.job.Watch, ImportLimit: w.job.ImportLimit}
		if w.script, err = python.Start(w.job.Script, rank, os.Stdout, os.Stderr); err != nil {
			return nil, err
		}
		return w.script.Body(w.job.Bench)
	}
	for _, b := range w.benches {
		if b.Name == w.job.Bench {
			if p, ok := b.Part(w.job.Part); ok && p.Body != nil {
				w.metrics, _ = b.Metrics()
				return w.checkContent(b, p.Body), nil
			}
		}
	}
	return nil, fmt.Errorf("this program has no bench %q with a part %q", w.job.Bench, w.job.Part)
}

// checkContent wraps a body so that it fails if inputs have changed since the run was planned.
func (w *worker) checkContent(b *bench.Bench, body decl.Body) decl.Body {
	if b.Content == nil {
		return body
	}
	return func(ctx context.Context, set decl.Setting) (decl.Outcome, error) {
		for name, now := range b.Content(set.Point, set.Point) {
			if planned := w.job.Inputs[name]; planned != now {
				err := fmt.Errorf("%s has changed since the run was planned: its SHA-256 was %s, now it is %s", name, planned, now)
				return decl.Outcome{Status: journal.Failed, Reason: err.Error(), Kind: journal.Measured}, err
			}
		}
		return body(ctx, set)
	}
}

// syncGroups returns the members of the sync group for the ranks of this process.
func (w *worker) syncGroups() ([]syncgroup.Group, error) {
	var group syncgroup.Group
	var err error
	switch {
	case w.job.Size == 1, w.job.Virtual:
		group = syncgroup.Solo()
	case w.job.InProcess:
		return syncgroup.Local(w.job.Size), nil
	case w.sync == syncShm:
		group, err = syncgroup.JoinShm(os.NewFile(ShmFD, "sync group"), w.rank, w.job.Size)
	case w.sync == syncHub:
		var conn *connection.Conn
		if conn, err = w.dial(true); err == nil {
			group, err = syncgroup.JoinStream(conn, w.rank, w.job.Size)
		}
	default:
		err = fmt.Errorf("no shared memory and no hub was given for a sync group of %d ranks", w.job.Size)
	}
	return []syncgroup.Group{group}, err
}

// listen forwards the supervisor's messages. When the connection ends, it exits the process, whatever
// the body is doing, because nobody would receive the result.
func (w *worker) listen() {
	for {
		var m message
		if err := w.conn.Receive(&m); err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintf(os.Stderr, "kernbench worker, rank %d: receiving from the supervisor: %v\n", w.rank, err)
			}
			os.Exit(3)
		}
		switch {
		case m == (message{}): // see Hub.Ping
			continue
		case m.Abort != nil:
			w.abort(*m.Abort)
			continue
		}
		w.orders <- m
		if m.Quit {
			return // the connection ends now, as expected
		}
	}
}

// abort cancels the current task: it cancels the context of the bodies and ends their wait for other
// ranks.
func (w *worker) abort(reason string) {
	if cancel := w.cancel.Load(); cancel != nil {
		(*cancel)(errors.New(reason))
	}
	if g := (*w.ranks.Load())[0].group; g != nil {
		g.Abort(reason) // wakes all ranks of this process
	}
}

func (w *worker) sendHeartbeats() {
	for range time.Tick(connection.HeartbeatInterval) {
		for _, r := range *w.ranks.Load() {
			if r.sendHeartbeat() != nil {
				return
			}
		}
	}
}

// perform runs the body at one point, on every rank of this process, and reports each outcome.
func (w *worker) perform(t *Task) error {
	for i := range t.Point {
		if i < len(t.Kinds) {
			t.Point[i].Value = t.Point[i].Value.Retype(t.Kinds[i])
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	w.cancel.Store(&cancel)
	defer w.cancel.Store(nil)
	if t.Limit > 0 {
		ctx = supervisedContext{ctx, time.Now().Add(t.Limit)}
	}
	ranks := *w.ranks.Load()
	errs := make([]error, len(ranks))
	var all sync.WaitGroup
	for i, r := range ranks[1:] {
		all.Go(func() { errs[i+1] = r.perform(ctx, t) })
	}
	errs[0] = ranks[0].perform(ctx, t)
	all.Wait()
	return errors.Join(errs...)
}

// supervisedContext has a deadline that it does not enforce itself. The supervisor does so by cancelling
// the context, so that only one clock decides whether a task was in time.
type supervisedContext struct {
	context.Context
	deadline time.Time
}

func (c supervisedContext) Deadline() (time.Time, bool) { return c.deadline, true }

// readVars returns the swept variables as this process sees them.
func readVars(names []string) map[string]*string {
	m := make(map[string]*string, len(names))
	for _, n := range names {
		m[n] = nil
		if v, ok := os.LookupEnv(n); ok {
			m[n] = &v
		}
	}
	return m
}

// rank is one of the ranks of a worker process.
type rank struct {
	worker *worker
	number int // among the ranks of this process
	group  syncgroup.Group
	phase  atomic.Pointer[string]
	wait   atomic.Bool // it waits for other ranks; see waitTracker
}

func newRank(w *worker, number int, g syncgroup.Group) *rank {
	r := &rank{worker: w, number: number, group: g}
	start := "start"
	r.phase.Store(&start)
	return r
}

func (r *rank) send(e Event) error {
	e.Rank = r.number
	return r.worker.conn.Send(message{Event: &e})
}

func (r *rank) sendHeartbeat() error {
	return r.send(Event{Heartbeat: true, Phase: *r.phase.Load(), Waiting: r.wait.Load()})
}

// setPhase changes the phase and sends it to the supervisor at once, so that a crash right afterwards is
// attributed to the right phase. It is called a few times per task, not for each sample.
func (r *rank) setPhase(phase string) {
	if old := r.phase.Swap(&phase); old == nil || *old != phase {
		r.sendHeartbeat()
	}
}

// perform runs the body at one point and reports the outcome.
func (r *rank) perform(ctx context.Context, t *Task) error {
	r.setPhase("set-up")
	w := r.worker
	out, err := w.body(ctx, decl.Setting{
		Point: slices.Clone(t.Point), Group: waitTracker{r.group, &r.wait}, LocalRank: w.local + r.number,
		Backend: w.job.Backend,
		Ranks:   w.job.Size, Session: w.job.Session, Seed: w.job.Seed, Measure: w.job.Measure,
		Metrics: w.metrics, Inputs: w.job.Inputs, Phase: r.setPhase,
	})
	cancelled := err != nil && ctx.Err() != nil
	if out.Phase = *r.phase.Load(); out.Status.Bad() {
		r.group.Abort(out.Reason)
	}
	// The rank that aborted or left the group reports its own error. The errors of the other ranks are
	// consequences, and so is every error after the body was cancelled.
	var aborted *syncgroup.AbortedError
	var peer *dist.PeerError
	secondary := cancelled || errors.As(err, &aborted) || errors.As(err, &peer) || errors.Is(err, decl.ErrElsewhere)
	var culprit *int
	if aborted != nil && aborted.Rank != syncgroup.HubRank {
		culprit = &aborted.Rank
	}
	r.setPhase("idle")
	return r.send(Event{Done: &out, Index: t.Index, Secondary: secondary, Culprit: culprit})
}

// waitTracker records when a rank only waits for other ranks. In a hang, the rank that does not wait is
// blamed.
type waitTracker struct {
	syncgroup.Group
	waiting *atomic.Bool
}

func (g waitTracker) Barrier(ctx context.Context) error {
	g.waiting.Store(true)
	err := g.Group.Barrier(ctx)
	g.waiting.Store(false)
	return err
}

func (g waitTracker) Exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	g.waiting.Store(true)
	all, err := g.Group.Exchange(ctx, mine)
	g.waiting.Store(false)
	return all, err
}

var _ syncgroup.Group = waitTracker{}
