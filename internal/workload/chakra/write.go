package chakra

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kernbench/kernbench/internal/accel/event"
)

// newest is the version of the schema that is written.
const newest = "0.0.4"

// Write writes the traces of all ranks to PREFIX.RANK.et. Each file is complete or absent, also after a crash.
func Write(prefix string, traces []*Trace) error {
	for _, t := range traces {
		if err := writeFile(FileName(prefix, t.Rank), t); err != nil {
			return fmt.Errorf("writing the trace of rank %d: %w", t.Rank, err)
		}
	}
	return nil
}

// writeFile writes a trace to a temporary file and renames it, so that a crash leaves no incomplete trace.
func writeFile(name string, t *Trace) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".trace-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := t.Encode(f); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// Encode writes the content of a trace file.
func (t *Trace) Encode(w io.Writer) error {
	message := appendAttrs(appendString(nil, 1, cmp.Or(t.Version, newest)), 2, t.Attrs)
	out := protowire.AppendBytes(nil, message)
	for i := range t.Nodes {
		message = t.Nodes[i].append(message[:0])
		if out = protowire.AppendBytes(out, message); len(out) > 1<<20 {
			if _, err := w.Write(out); err != nil {
				return err
			}
			out = out[:0]
		}
	}
	_, err := w.Write(out)
	return err
}

// append writes the fields of a node.
func (n *Node) append(b []byte) []byte {
	b = appendUint(b, 1, n.ID)
	if n.ID == 0 { // written, so that readers recognize the message by its first field
		b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), 0)
	}
	b = appendString(b, 2, n.Name)
	b = appendUint(b, 3, uint64(n.Type))
	b = appendPacked(b, 4, n.CtrlDeps)
	b = appendPacked(b, 5, n.DataDeps)
	b = appendUint(b, 6, roundedMicros(n.Start))
	b = appendUint(b, 7, roundedMicros(n.Duration))
	b = appendIO(b, 8, n.Inputs)
	b = appendIO(b, 9, n.Outputs)
	return appendAttrs(appendAttrs(b, 10, n.attributes()), 10, n.Extra)
}

// roundedMicros returns a time in whole microseconds, the unit of the schema. The exact time is an attribute of this
// program (startPS, durationPS).
func roundedMicros(t event.Time) uint64 { return uint64((t + event.Microsecond/2) / event.Microsecond) }

func appendPacked(b []byte, number protowire.Number, ids []uint64) []byte {
	if len(ids) == 0 {
		return b
	}
	var packed []byte
	for _, id := range ids {
		packed = protowire.AppendVarint(packed, id)
	}
	return appendMessage(b, number, packed)
}

func appendIO(b []byte, number protowire.Number, io *IO) []byte {
	if io == nil {
		return b
	}
	return appendMessage(b, number, appendString(appendString(appendString(nil, 1, io.Values), 2, io.Shapes), 3, io.Types))
}

func appendAttrs(b []byte, number protowire.Number, attrs []Attr) []byte {
	for i := range attrs {
		b = appendMessage(b, number, attrs[i].message)
	}
	return b
}

// attributes returns the fields of the node that are attributes in a file, in the kinds that ASTRA-sim reads.
func (n *Node) attributes() []Attr {
	attrs := []Attr{varint("is_cpu_op", Bool, n.CPU, protowire.EncodeBool(n.CPU))}
	integer := func(name string, v int64) { attrs = append(attrs, Integer(name, v)) }
	optional := func(name string, v int64) {
		if v != 0 {
			integer(name, v)
		}
	}
	if n.Type == Coll {
		integer("comm_type", int64(n.Collective))
	}
	peers := optional
	if n.Type == Send || n.Type == Recv {
		peers = integer
	}
	peers("comm_src", int64(n.Src))
	peers("comm_dst", int64(n.Dst))
	peers("comm_tag", n.Tag)
	optional("comm_size", n.Bytes)
	optional("comm_priority", n.Priority)
	optional("comm_root", int64(n.Root))
	optional("num_ops", n.Ops)
	optional("tensor_size", n.TensorBytes)
	if n.Start%event.Microsecond != 0 {
		integer(startPS, int64(n.Start))
	}
	if n.Duration%event.Microsecond != 0 {
		integer(durationPS, int64(n.Duration))
	}
	if n.Group != "" {
		attrs = append(attrs, textual("pg_name", n.Group))
	}
	return attrs
}
