package chakra

import (
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
)

// Attributes of this program: the start and the duration in picoseconds, if they are not whole numbers of
// microseconds.
const (
	startPS    = "start_time_ps"
	durationPS = "duration_ps"
)

// known sets the fields of Node, by the name of the attribute. The attributes of a node whose name is not here
// go to Extra.
var known = map[string]func(*Node, *Attr) error{
	"is_cpu_op": func(n *Node, a *Attr) error {
		v, ok := a.value.(bool)
		if i, isInt := a.integer(); isInt {
			v, ok = i != 0, true
		}
		if n.CPU = v; !ok {
			return wrongKind(a, "a bool")
		}
		return nil
	},
	"num_ops":       integer(func(n *Node) *int64 { return &n.Ops }),
	"tensor_size":   integer(func(n *Node) *int64 { return &n.TensorBytes }),
	"comm_size":     integer(func(n *Node) *int64 { return &n.Bytes }),
	"comm_tag":      integer(func(n *Node) *int64 { return &n.Tag }),
	"comm_priority": integer(func(n *Node) *int64 { return &n.Priority }),
	"comm_src":      rank(func(n *Node) *int { return &n.Src }),
	"comm_dst":      rank(func(n *Node) *int { return &n.Dst }),
	"comm_root":     rank(func(n *Node) *int { return &n.Root }),
	"comm_type": func(n *Node, a *Attr) error {
		v, ok := a.integer()
		if i := slices.Index(schemaNames[:], a.text()); i >= 0 {
			v, ok = int64(i), true
		}
		if !ok {
			return wrongKind(a, "an integer, or a name such as "+schemaNames[AllReduce])
		}
		if v < 0 || v >= int64(collectives) {
			return fmt.Errorf("comm_type is %d: want 0 (%v) to %d (%v)", v, AllReduce, collectives-1, collectives-1)
		}
		n.Collective = Collective(v)
		return nil
	},
	"pg_name": func(n *Node, a *Attr) error {
		n.Group = a.text()
		return nil
	},
	"involved_dim": func(_ *Node, a *Attr) error {
		if dims, _ := a.value.([]bool); slices.Contains(dims, false) {
			return fmt.Errorf("involved_dim is %v: collectives over some dimensions of a topology are not supported; "+
				"the attribute pg_name names a process group instead", dims)
		}
		return nil
	},
	"runtime": func(n *Node, a *Attr) error { // of older traces
		v, ok := a.integer()
		if !ok || v < 0 {
			return wrongKind(a, "a number of microseconds")
		}
		n.Duration = micros(uint64(v))
		return nil
	},
	startPS:    picoseconds(func(n *Node) *event.Time { return &n.Start }),
	durationPS: picoseconds(func(n *Node) *event.Time { return &n.Duration }),
}

// schemaNames are the names of the collectives in the schema.
var schemaNames = [collectives]string{"ALL_REDUCE", "REDUCE", "ALL_GATHER", "GATHER", "SCATTER", "BROADCAST",
	"ALL_TO_ALL", "REDUCE_SCATTER", "REDUCE_SCATTER_BLOCK", "BARRIER"}

// take stores an attribute in the node.
func (n *Node) take(a *Attr) error {
	if set, ok := known[a.Name]; ok {
		return set(n, a)
	}
	n.Extra = append(n.Extra, a.clone())
	return nil
}

// integer, picoseconds and rank return functions that store an attribute in a field of a node.
func integer(field func(*Node) *int64) func(*Node, *Attr) error {
	return func(n *Node, a *Attr) error {
		v, ok := a.integer()
		if !ok {
			return wrongKind(a, "an integer")
		}
		*field(n) = v
		return nil
	}
}

func picoseconds(field func(*Node) *event.Time) func(*Node, *Attr) error {
	return func(n *Node, a *Attr) error {
		v, ok := a.integer()
		if !ok || v < 0 {
			return wrongKind(a, "a number of picoseconds")
		}
		*field(n) = event.Time(v)
		return nil
	}
}

func rank(field func(*Node) *int) func(*Node, *Attr) error {
	return func(n *Node, a *Attr) error {
		v, ok := a.integer()
		if !ok || v < 0 || v > math.MaxInt32 {
			return wrongKind(a, "a rank")
		}
		*field(n) = int(v)
		return nil
	}
}

func wrongKind(a *Attr, want string) error {
	return fmt.Errorf("%s is %q: want %s", a.Name, a.text(), want)
}
