package tl

import (
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/dtype"
)

type (
	// Topology is the machine.
	Topology = topo.Topology
	// PEID names a PE of the system by SIP, cube and number in the cube.
	PEID = topo.PEID
	// Address is a physical address of the system.
	Address = topo.Address
	// Float16 is an element: an IEEE 754 binary16.
	Float16 = dtype.Float16
)
