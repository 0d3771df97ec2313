package accel

import (
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/dtype"
)

type (
	// Topology is the machine: its parts, how they are connected and what each costs.
	Topology = topo.Topology
	// PEID names a PE of the system by SIP, cube and number in the cube.
	PEID = topo.PEID
	// Config says which all-reduce runs, and how each algorithm is set up.
	Config = ccl.Config
	// Result is what a launch took.
	Result = sim.Result
	// Breakdown says where the time of the slowest PE went.
	Breakdown = sim.Breakdown
	// Deadlock is the error of kernels that wait for each other.
	Deadlock = sim.Deadlock
	// Time is simulated time in picoseconds.
	Time = event.Time
	// Float16 is an element: an IEEE 754 binary16.
	Float16 = dtype.Float16
)

// DefaultTopology is the machine that is built in.
func DefaultTopology() *Topology { return topo.Default() }

// DefaultConfig is the configuration of collectives that is built in.
func DefaultConfig() *Config { return ccl.Default() }

// Float16From rounds to the nearest Float16, ties to even.
func Float16From(f float32) Float16 { return dtype.Float16From(f) }
