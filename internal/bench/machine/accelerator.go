package machine

import (
	"cmp"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// Accelerator is the simulated accelerator of a point, as selected by --topology, --ccl and --fabric.
type Accelerator struct {
	Topo *topo.Topology
	CCL  *ccl.Config
	Name string // of the topology file, or bench.BuiltIn
	File []byte // text of the topology file
}

// BuiltIn reports whether the topology is the built-in one.
func (a Accelerator) BuiltIn() bool { return a.Name == bench.BuiltIn }

// AsTopology is the value of --fabric that keeps the fabric of the topology file.
const AsTopology = "topology"

// AcceleratorOptions declares --topology, --ccl and --fabric. The files of the current folder are the defaults.
func AcceleratorOptions() []bench.Clause {
	return []bench.Clause{
		Files(accel.TopologyFile(), "topology file, or several to compare; "+bench.BuiltIn+
			" is the built-in one (default: topology.yaml here, else built in)"),
		bench.FileOption("ccl", accel.CCLFile(), "collectives file (default: ccl.yaml here, else built in)"),
		bench.Sweepable(bench.Choice("fabric",
			"how messages move, or several ways to compare: as the topology says, in flits, "+
				"or whole", AsTopology, string(topo.Flits), string(topo.Whole))),
	}
}

// AsCCL is the value of --root that keeps the root of the collectives file.
const AsCCL = "ccl"

// RootOption declares --root, the cube in which the hierarchical all-reduce computes the sum of a SIP.
func RootOption() bench.Clause {
	return bench.Sweepable(bench.Choice(Root, "cube of each SIP in which "+ccl.LRAB+" computes the sum, or several to "+
		"compare: as the collectives file says, in the middle, or in the south-east corner", AsCCL, string(ccl.Center),
		string(ccl.Corner)))
}

// ReadRoot applies --root to the accelerator and records the root in the row.
func ReadRoot(s *bench.State, a *Accelerator) error {
	if root := s.Str(Root); root != AsCCL {
		algorithm := a.CCL.Algorithm
		c, err := a.CCL.With(ccl.LRAB, func(set *ccl.Settings) { set.Root = ccl.Root(root) })
		if err != nil {
			return err
		}
		c.Algorithm = algorithm
		a.CCL = c
	}
	s.Detail(Root, string(a.CCL.Algorithms[ccl.LRAB].Root))
	return nil
}

// ReadAccelerator reads the accelerator of a point and records it in the row.
func ReadAccelerator(s *bench.State) (a Accelerator, err error) {
	path, data, err := Note(s, topo.DefaultFile())
	if err != nil {
		return a, err
	}
	a = Accelerator{CCL: ccl.Default(), Name: cmp.Or(path, bench.BuiltIn), File: data}
	if a.Topo, err = topo.Parse(a.Name, data); err != nil {
		return a, err
	}
	if path, data, err = s.File("ccl"); err == nil && path != "" {
		a.CCL, err = ccl.Parse(path, data)
	}
	if f := s.Str("fabric"); f != AsTopology {
		a.Topo.Fabric = topo.Fabric(f)
	}
	s.Detail(Fabric, string(a.Topo.Fabric))
	return a, err
}
