// Package ahbm is the dist backend for the simulated accelerator. A rank is a SIP, and time is simulated. All
// ranks are goroutines of one process (Spawn starts them), and a collective runs when the last of them has called
// it.
//
//	err := ahbm.Spawn(ctx, ahbm.Machine{}, func(ctx context.Context, g *dist.Group) error {
//		return g.AllReduce(out, in, dist.Sum)
//	})
//
// It supports all-reduce (sums of f16) and barrier, which takes no time. The PEs of a SIP share the work on the
// buffer of its rank. Data that does not fit into a receive slot is sent in pieces, one after the other. PerCube
// allocates a buffer with a tile on every cube; its all-reduce leaves in each tile the sum over all cubes of all
// ranks.
//
// The clock counts the times of kernels, from the common start of the PEs to the end of the last one. The host, and
// copies to and from the accelerator, take no simulated time.
package ahbm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/dist/instrument"
)

// Name is the name of the backend.
const Name = "ahbm"

func init() {
	dist.Register(dist.Description{
		Name: Name, Help: "the simulated accelerator: a rank is a SIP",
		Capabilities: capabilities(ccl.Names()),
		InProcess:    true, Simulated: true,
		Hints: hints.Hints{
			MaxBytes: 4 << 20,                     // larger calls take too long to simulate
			Model:    accel.Version() + "-shared", // the PEs of a SIP share the work
		},
	}, backend{})
}

// Machine is the machine of a group. The zero Machine is the built-in one with one SIP per rank and large slots.
type Machine struct {
	Topo *topo.Topology
	CCL  *ccl.Config
	// Observe, if set, is called with the result of every launch.
	Observe func(*sim.Result)
	// TimingOnly skips computing the data.
	TimingOnly bool
	// Load records the load of links in every result.
	Load bool
	// Trace records every event in each result.
	Trace bool
}

// The slot sizes of the zero Machine: large, so that few tiles are sent in pieces, and small enough for the TCM.
// LRAB receives from few neighbours, the other algorithms from many.
const (
	lrabSlot = 1 << 20
	flatSlot = 256 << 10
)

// withDefaults returns the machine with its defaults filled in for a group of a size. It fails if the machine has
// another number of SIPs.
func (m Machine) withDefaults(size int) (Machine, error) {
	var err error
	if m.CCL == nil {
		m.CCL = ccl.Default()
		for _, name := range append(ccl.Names(), ccl.LRAB) { // With selects the algorithm, so LRAB comes last
			size := flatSlot
			if name == ccl.LRAB {
				size = lrabSlot
			}
			if m.CCL, err = m.CCL.With(name, func(s *ccl.Settings) { s.SlotBytes = size }); err != nil {
				return m, err
			}
		}
	}
	if m.Topo == nil {
		t := topo.Default()
		if m.Topo, err = t.WithSIPs(topo.Ring, size, 1); err != nil {
			return m, err
		}
	}
	if n := m.Topo.SIPs.Count; n != size {
		return m, fmt.Errorf("the topology has %d SIPs, but the group %d ranks: a rank is a SIP, so take --ranks %d", n,
			size, n)
	}
	return m, nil
}

// worlds has the groups that are being joined, by ID, and the machines that Use has set.
var worlds = struct {
	sync.Mutex
	byID     map[string]*world
	machines map[string]Machine
}{byID: map[string]*world{}, machines: map[string]Machine{}}

// Use sets the machine of the group with an ID, before its ranks join.
func Use(id string, m Machine) {
	worlds.Lock()
	defer worlds.Unlock()
	worlds.machines[id] = m
}

var spawned atomic.Int64

// Spawn runs fn on every SIP of a machine. The ranks are goroutines and form a new group. A rank that fails leaves
// the group, so that the others do not wait for it. The returned error joins the errors of all ranks.
func Spawn(ctx context.Context, m Machine, fn func(ctx context.Context, g *dist.Group) error) error {
	if m.Topo == nil {
		m.Topo = topo.Default()
	}
	id := fmt.Sprintf("ahbm-spawn-%d", spawned.Add(1))
	Use(id, m)
	size := m.Topo.SIPs.Count
	errs := make([]error, size)
	var ranks sync.WaitGroup
	for rank := range size {
		ranks.Go(func() {
			g, err := dist.Init(ctx, dist.Config{Backend: Name, Rank: rank, Size: size, ID: id})
			if err == nil {
				err = errors.Join(fn(ctx, g), g.Close())
			}
			if err != nil {
				errs[rank] = fmt.Errorf("rank %d: %w", rank, err)
			}
		})
	}
	ranks.Wait()
	return errors.Join(errs...)
}

type backend struct{}

// Machine returns the machine of a group with the given number of ranks, for benches with their own
// kernels. file is the topology file; "" means the built-in topology.
func (backend) Machine(file, arrangement string, ranks int) (*topo.Topology, *ccl.Config, error) {
	m, err := machineOf(file, arrangement, ranks)
	return m.Topo, m.CCL, err
}

// machineOf returns the machine of a topology file with an arrangement, for groups of a size. If path is "", it is the
// built-in one with as many SIPs as ranks.
func machineOf(path, arrangement string, size int) (m Machine, err error) {
	if path != "" {
		if m.Topo, err = topo.Load(path); err != nil {
			return m, err
		}
	} else if m.Topo, err = topo.Default().WithSIPs(topo.Ring, size, 1); err != nil {
		return m, err
	}
	if arrangement != "" {
		if m.Topo, err = m.Topo.Arrange(arrangement); err != nil {
			return m, err
		}
	}
	return m.withDefaults(size)
}

var _ instrument.MachineReader = backend{}

// CheckMachine implements instrument.MachineReader.
func (backend) CheckMachine(path, arrangement string, ranks int) error {
	_, err := machineOf(path, arrangement, ranks)
	return err
}

// DescribeMachine implements instrument.MachineReader.
func (backend) DescribeMachine(path, arrangement string) (instrument.Machine, error) {
	t, name, open := topo.Default(), "the built-in topology", path == ""
	var err error
	if path != "" {
		name = "topology " + filepath.Base(path)
		if t, err = topo.Load(path); err != nil {
			return instrument.Machine{}, err
		}
	}
	if arrangement != "" {
		_, grid, _ := topo.ParseArrangement(arrangement)
		open = open && grid == (topo.Grid{})
		if t, err = t.Arrange(arrangement); err != nil {
			return instrument.Machine{}, err
		}
	}
	m := instrument.Machine{BuiltIn: topo.DefaultFile(),
		Details: map[string]string{"fabric": string(t.Fabric), "sip_topology": string(t.SIPs.Kind)}}
	if open { // the number of SIPs follows the number of ranks
		m.Text = fmt.Sprintf("%s, %s, fabric %s", name, t.SIPs.Kind, t.Fabric)
		return m, nil
	}
	m.Ranks, m.Details["sip_grid"] = t.SIPs.Count, t.SIPs.Grid.String()
	m.Text = fmt.Sprintf("%s: %d SIPs of %d cubes, %s, fabric %s", name, t.SIPs.Count, t.Cubes.Count(), t.SIPs.Kind,
		t.Fabric)
	return m, nil
}

// NearbyMachine implements instrument.MachineReader.
func (backend) NearbyMachine() string { return accel.TopologyFile() }

// Join waits until all ranks of the group in this process have joined.
func (backend) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	worlds.Lock()
	w := worlds.byID[c.ID]
	if w == nil {
		m, used := worlds.machines[c.ID]
		var err error
		if used {
			m, err = m.withDefaults(c.Size)
		} else {
			m, err = machineOf(c.Machine, c.Arrangement, c.Size)
		}
		if err != nil {
			worlds.Unlock()
			return nil, err
		}
		w = newWorld(c.Size, c.Secret, m)
		worlds.byID[c.ID] = w
	}
	var err error
	switch {
	case w.size != c.Size:
		err = fmt.Errorf("rank %d says the group has %d ranks, others say %d", c.Rank, c.Size, w.size)
	case w.secret != c.Secret:
		err = errors.New("the secret differs from the secret of the group")
	case w.joined[c.Rank]:
		err = fmt.Errorf("duplicate rank %d", c.Rank)
	}
	if err != nil {
		worlds.Unlock()
		return nil, err
	}
	w.joined[c.Rank] = true
	w.missing--
	if w.missing == 0 {
		close(w.complete)
		delete(worlds.byID, c.ID) // so that the ID can be reused
		delete(worlds.machines, c.ID)
	}
	worlds.Unlock()
	timeout := time.NewTimer(c.Timeout)
	defer timeout.Stop()
	select {
	case <-w.complete:
		return &engine{world: w, rank: c.Rank, timeout: c.Timeout}, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timeout.C:
		err = fmt.Errorf("%d of %d ranks did not join within %v", w.absent(), w.size, c.Timeout)
	}
	if !w.withdraw(c) {
		return &engine{world: w, rank: c.Rank, timeout: c.Timeout}, nil
	}
	return nil, err
}

// perCube is the kind of memory of buffers with a tile on every cube.
type perCube struct{}

// onCube is the kind of memory of plain buffers.
type onCube struct{}

// PerCube returns a buffer with a tile of n elements on every cube of the rank's SIP. Cube c has the elements
// [c*n, (c+1)*n).
func PerCube(m *topo.Topology, n int) dist.Buffer {
	cells := dist.Of(make([]dist.Float16, m.Cubes.Count()*n))
	return dist.NewBuffer(dist.F16, cells.Count(), unsafePointer(cells), perCube{})
}
