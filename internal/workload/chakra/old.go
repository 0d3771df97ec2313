package chakra

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of node types and collectives in the first schema (eg_def.proto), which had fewer of them.
var (
	oldTypes       = [...]NodeType{Invalid, MemLoad, MemStore, Comp, Send, Recv, Coll, Invalid}
	oldCollectives = [...]Collective{missing, AllReduce, AllToAll, AllGather, ReduceScatter}
)

// isFirstSchema reports whether nodes without metadata have the first schema: they have number fields that later
// schemas lack, and no attributes.
func isFirstSchema(messages [][]byte) bool {
	first := false
	for _, m := range messages {
		later := false
		_ = fields(m, func(f field) error {
			later = later || f.number == 10 && f.wire == protowire.BytesType
			first = first || f.number >= 12 && f.number <= 20 && f.wire == protowire.VarintType
			return nil
		})
		if later {
			return false
		}
	}
	return first
}

// oldNode reads a node of the first schema. It has a list of parents, which are dependencies, and fields
// instead of attributes.
func (r *reader) oldNode(t *Trace, n *Node, message []byte) error {
	var excluded error
	comm := uint64(0)
	err := fields(message, func(f field) (err error) {
		v := int64(min(f.num, math.MaxInt64))
		switch f.number {
		case 1:
			n.ID = f.num
		case 2:
			n.Name = r.intern(f.data)
		case 3:
			n.Type = oldTypes[min(f.num, uint64(len(oldTypes)-1))]
		case 4:
			n.CtrlDeps, err = appendIDs(n.CtrlDeps, f)
		case 5, 8, 10: // where tensors are
		case 6:
			n.TensorBytes = v
		case 7:
			n.Duration = micros(f.num)
		case 12:
			n.Ops = v
		case 13:
			comm = f.num
		case 14:
			if f.num == 0 {
				excluded = errors.New("involved_dim excludes a dimension, which is not supported")
			}
		case 15:
			n.Group = fmt.Sprint(f.num)
		case 16:
			n.Src = int(min(f.num, math.MaxInt32))
		case 17:
			n.Dst = int(min(f.num, math.MaxInt32))
		case 18:
			n.Bytes = v
		case 19:
			n.Tag = v
		case 20:
			n.Priority = v
		default:
			t.unknown[fmt.Sprintf("field %d of a node", f.number)]++
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case n.Type == Coll && (comm == 0 || comm >= uint64(len(oldCollectives))):
		return fmt.Errorf("comm_type is %d: want 1 (%v) to 4 (%v)", comm, AllReduce, ReduceScatter)
	case n.Type == Coll:
		n.Collective = oldCollectives[comm]
	}
	return excluded
}
