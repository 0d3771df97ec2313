package ahbm

import (
	"errors"
	"fmt"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/ccl"
)

// engine is one rank's end of a world.
type engine struct {
	world   *world
	rank    int
	timeout time.Duration
}

var _ dist.Engine = (*engine)(nil)

func (e *engine) Rank() int { return e.rank }
func (e *engine) Size() int { return e.world.size }

// Capabilities are those of the algorithms that the machine is configured for.
func (e *engine) Capabilities() dist.Capabilities {
	names := []string{e.world.machine.CCL.Algorithm} // the first is the default
	for _, name := range ccl.Names() {
		if _, there := e.world.machine.CCL.Algorithms[name]; there && name != names[0] {
			names = append(names, name)
		}
	}
	return capabilities(names)
}

// capabilities say that the accelerator adds up halves, and little else.
func capabilities(algorithms []string) dist.Capabilities {
	return dist.Capabilities{
		Ops:        []dist.Collective{dist.AllReduce, dist.Barrier},
		DTypes:     []dist.DType{dist.F16},
		Reductions: []dist.Reduction{dist.Sum},
		Algorithms: map[dist.Collective][]string{dist.AllReduce: algorithms},
		Chunk:      true,
		// The exchange between SIPs goes round, and each begins with its own sum.
		RanksRound: true,
	}
}

// Alloc gives memory of the rank alone; the accelerator's own is filled from it
// at each call.
func (e *engine) Alloc(d dist.DType, count int) (dist.Buffer, error) {
	if d != dist.F16 {
		return dist.Buffer{}, fmt.Errorf("allocating %v: the accelerator has %v only", d, dist.F16)
	}
	cells := dist.Of(make([]dist.Float16, count))
	return dist.NewBuffer(d, count, unsafePointer(cells), onCube{}), nil
}

func (e *engine) Free(b dist.Buffer) error {
	if b.Memory() == nil {
		return errors.New("freeing a buffer that was not allocated here")
	}
	return nil
}

func (e *engine) Prepare(p dist.Plan) (func() error, error) {
	return func() error { return e.world.meet(e.rank, &p, e.timeout) }, nil
}

func (e *engine) Refuse(reason error) { e.world.refuse(e.rank, reason) }

func (e *engine) Split(color, key int) (dist.Engine, error) {
	return nil, errors.New("the simulated accelerator has no groups of some of its SIPs")
}

func (e *engine) Clock() dist.Clock { return e.world.clock() }

func (e *engine) Close() error {
	e.world.leave(e.rank)
	return nil
}
