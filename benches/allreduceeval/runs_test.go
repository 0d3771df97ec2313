package allreduceeval

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// forgetful is a faulty host backend: in every second run of an operation it does not write the first
// element of rank 1's output. If streamed is set, only streamed calls are faulty.
type forgetful struct{ streamed bool }

type forgetfulEngine struct {
	*dist.Group
	rest
	wrong bool
}

// rest provides the remaining methods of dist.Engine, which the bench does not call. It is embedded
// one level deeper than the group, so the group's methods take precedence.
type rest struct{ dist.Engine }

const forgetfulName = "forgetful"

func (b forgetful) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	c.Backend = hints.HostBackend
	g, err := dist.Init(ctx, c)
	return forgetfulEngine{Group: g, wrong: !b.streamed || c.StreamFrom > 0}, err
}

func (e forgetfulEngine) Split(int, int) (dist.Engine, error) { return nil, errors.New("not needed") }

func (e forgetfulEngine) Prepare(p dist.Plan) (run, release func() error, err error) {
	op, err := e.Group.Prepare(p.Call)
	runs := 0
	return func() error {
		if runs++; runs%2 == 1 || !e.wrong || e.Rank() != 1 || p.Out.Count() == 0 {
			return op.Run()
		}
		element := p.Out.Slice(0, 1).Bytes()
		was := bytes.Clone(element)
		err := op.Run()
		copy(element, was)
		return err
	}, op.Close, err
}

// A bug in the streaming path fails a cell of the quick profile, although the vectors are short.
func TestStreamedCallsAreChecked(t *testing.T) {
	const name = "forgetful-streams"
	dist.Register(dist.Description{Name: name, Hints: hints.Hints{HostMemory: true}}, forgetful{streamed: true})
	p, list := tasks(t, matrix.Correctness,
		assigns("num_ranks=2", "dtype=f32", "algorithm=one-stage", "inplace=false", "epilogue=false"), nil)
	for _, o := range performOn(t, name, matrix.Correctness, list[0], p.Options) {
		if cells := o.Details["cells"]; o.Status != journal.Failed || strings.Count(cells, "failed") != 1 ||
			!strings.Contains(cells, "1Mi-1 streamed=failed") {
			t.Errorf("%s: cells %s", o.Status, cells)
		}
	}
}

// An operation that is wrong in every second run fails its cells and its timed rows, in place too. The
// larger rows are checked on several cores.
func TestEverySecondRunIsCaught(t *testing.T) {
	dist.Register(dist.Description{Name: forgetfulName}, forgetful{})
	for part, axes := range map[string]string{matrix.Correctness: "inplace=false epilogue=false",
		matrix.Performance: "size=1Ki,512Ki inplace=false,true"} {
		p, list := tasks(t, part, assigns(append(strings.Fields(axes), "num_ranks=2", "dtype=f32",
			"algorithm=two-stage,ring,quickreduce")...), nil)
		if len(list) < 3 || part == matrix.Performance && len(list) != 12 {
			t.Errorf("%s: %d rows", part, len(list))
		}
		for _, task := range list {
			for rank, o := range performOn(t, forgetfulName, part, task, p.Options) {
				if o.Status != journal.Failed || rank == 1 && !strings.Contains(o.Reason, "element 0") {
					t.Errorf("%s %s: rank %d: %s: %s", part, task.Point, rank, o.Status, o.Reason)
				}
			}
		}
	}
}

// A rank that found a fault reports it, even if another rank has ended the group because of it.
func TestOwnFaultComesFirst(t *testing.T) {
	fault := errors.New("element 0 is wrong")
	v := verdict{fault: fault, failedRank: 1}
	if err := v.err(errors.New("group aborted by rank 0: rank 1: the cause is there")); !errors.Is(err, fault) {
		t.Errorf("the row says %v", err)
	}
}
