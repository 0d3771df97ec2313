package chakra

import (
	"bytes"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/must"
)

// typed is an attribute to encode: values are float64, int64, uint64, bool, string, []byte, or an []any of them.
type typed struct {
	name, doc string
	kind      Kind
	value     any
}

// attributes encodes attributes, and reads their values again.
func attributes(t testing.TB, list []typed) (attrs []Attr) {
	r := reader{names: map[string]string{}}
	for _, a := range list {
		b := appendString(appendString(nil, 1, a.name), 2, a.doc)
		b = protowire.AppendTag(b, protowire.Number(a.kind), a.kind.wire())
		if values, is := a.value.([]any); is {
			b = protowire.AppendBytes(b, encodedList(t, a.kind-1, values))
		} else {
			b = a.kind.append(t, b, a.value)
		}
		attr, valued, err := r.attr(b)
		if err != nil || !valued {
			t.Fatalf("%s: %v, %t", a.name, err, valued)
		}
		if !a.kind.isList() {
			if d := cmp.Diff(a.value, attr.value); d != "" {
				t.Errorf("%s: %s", a.name, d)
			}
		}
		attrs = append(attrs, attr)
	}
	return attrs
}

// encodedList returns the message of a list. Numbers are packed, as proto3 does.
func encodedList(t testing.TB, k Kind, values []any) (b []byte) {
	if k.wire() == protowire.BytesType {
		for _, v := range values {
			b = k.append(t, protowire.AppendTag(b, 1, protowire.BytesType), v)
		}
		return b
	}
	var packed []byte
	for _, v := range values {
		packed = k.append(t, packed, v)
	}
	return appendMessage(nil, 1, packed)
}

// append encodes one value.
func (k Kind) append(t testing.TB, b []byte, value any) []byte {
	bits := uint64(0)
	switch v := value.(type) {
	case string:
		return protowire.AppendString(b, v)
	case []byte:
		return protowire.AppendBytes(b, v)
	case bool:
		bits = protowire.EncodeBool(v)
	case uint64:
		bits = v
	case float64:
		if bits = math.Float64bits(v); k == Float {
			bits = uint64(math.Float32bits(float32(v)))
		}
	case int64:
		if bits = uint64(v); k == Sint32 || k == Sint64 {
			bits = protowire.EncodeZigZag(v)
		}
	default:
		t.Fatalf("%T", value)
	}
	switch k.wire() {
	case protowire.Fixed64Type:
		return protowire.AppendFixed64(b, bits)
	case protowire.Fixed32Type:
		return protowire.AppendFixed32(b, uint32(bits))
	}
	return protowire.AppendVarint(b, bits)
}

func encoded(t testing.TB, tr *Trace) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, tr.Encode(&b))
	return b.Bytes()
}

// sample has a node of every kind that a replay uses, and an attribute of every kind of value.
func sample(t testing.TB) *Trace {
	groups := must.Get(GroupNode(99, []Group{{Name: "tp", Ranks: []int{1, 0}}, {Name: "world"}}))(t)
	list := func(v ...any) []any { return v }
	return &Trace{Rank: 1, Version: newest, Attrs: []Attr{textual("schema", "x")}, Nodes: []Node{
		{ID: 0, Name: "load", Type: MemLoad, TensorBytes: 4096, Duration: 3 * event.Microsecond},
		{ID: 7, Name: "matmul", Type: Comp, CtrlDeps: []uint64{0}, Duration: 1234567, Ops: 1 << 40,
			Inputs: &IO{Values: "[1]", Shapes: "[[2]]", Types: "['Tensor']"}, Extra: attributes(t, []typed{
				{"a", "help", Double, 1.5}, {"b", "", Double.List(), list(1.5, -2.0)}, {"c", "", Float, 0.25},
				{"d", "", Float.List(), list(0.25)}, {"e", "", Int32, int64(-3)},
				{"f", "", Int32.List(), list(int64(-3), int64(4))},
				{"g", "", Int64, int64(math.MinInt64)}, {"h", "", Int64.List(), list(int64(-1))},
				{"i", "", Uint32, uint64(7)}, {"j", "", Uint32.List(), list(uint64(7))}, {"k", "", Uint64, uint64(math.MaxUint64)},
				{"l", "", Uint64.List(), list(uint64(1), uint64(1<<63))}, {"m", "", Sint32, int64(-9)},
				{"n", "", Sint32.List(), list(int64(-9))}, {"o", "", Sint64, int64(-10)},
				{"p", "", Sint64.List(), list(int64(-10), int64(10))}, {"q", "", Fixed32, uint64(5)},
				{"r", "", Fixed32.List(), list(uint64(5))}, {"s", "", Fixed64, uint64(6)},
				{"t", "", Fixed64.List(), list(uint64(6))},
				{"u", "", Sfixed32, int64(-5)}, {"v", "", Sfixed32.List(), list(int64(-5))}, {"w", "", Sfixed64, int64(-6)},
				{"x", "", Sfixed64.List(), list(int64(-6))}, {"y", "", Bool, true}, {"z", "", Bool.List(), list(true, false)},
				{"aa", "", String, "text"}, {"bb", "", String.List(), list("p", "q")}, {"cc", "", Bytes, []byte{0, 1}},
				{"dd", "", Bytes.List(), list([]byte{2}, []byte{3})}})},
		{ID: 8, Name: "grad", Type: Coll, DataDeps: []uint64{7}, Collective: ReduceScatter, Bytes: 1 << 20, Group: "tp"},
		{ID: 9, Name: "bcast", Type: Coll, Collective: Broadcast, Bytes: 8, Root: 1, Priority: 2},
		{ID: 10, Name: "send", Type: Send, Src: 1, Dst: 0, Tag: 5, Bytes: 64},
		{ID: 11, Name: "recv", Type: Recv, Src: 0, Dst: 1, Tag: 6, Bytes: 64, CPU: true}, groups}}
}

// TestRoundTrip writes traces of all node types and kinds of attributes, and reads the same again.
func TestRoundTrip(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "step")
	zero := &Trace{Version: newest, Nodes: []Node{{ID: 3, Name: "recv", Type: Recv, Src: 1, Bytes: 64, Tag: 5}}}
	want := []*Trace{zero, sample(t)}
	must.Do(t, Write(prefix, want))
	got := must.Get(Read(prefix))(t)
	ignore := cmp.Options{cmpopts.IgnoreUnexported(Trace{}), cmp.AllowUnexported(Attr{}),
		cmpopts.IgnoreFields(Trace{}, "File"), cmpopts.EquateEmpty()}
	if d := cmp.Diff(want, got, ignore); d != "" {
		t.Error(d)
	}
	groups := must.Get(got[1].Groups(2))(t)
	if d := cmp.Diff([]Group{{"tp", []int{1, 0}}, {"world", []int{0, 1}}}, groups); d != "" {
		t.Error(d)
	}
	if n := got[1].Unused(); n["attribute dd"] != 1 || n["attribute schema of the metadata"] != 1 || len(n) != 31 {
		t.Errorf("unused: %v", n)
	}
	if left := must.Get(filepath.Glob(filepath.Dir(prefix) + "/.trace*"))(t); len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

// published is the trace of a 1 MB all-reduce as another program writes it: metadata "0.0.4", then node 1 with
// is_cpu_op, comm_type and comm_size.
const published = "07 0a05 302e302e34" +
	"40 0801 120a 416c6c2d526564756365 1807" +
	"52 0e 0a09 69735f6370755f6f70 d80100" +
	"52 0d 0a09 636f6d6d5f74797065 4800" +
	"52 0f 0a09 636f6d6d5f73697a65 48808040"

func unhex(t testing.TB, text string) []byte {
	return must.Get(hex.DecodeString(strings.ReplaceAll(text, " ", "")))(t)
}

// TestPublished reads bytes that were not written by this package.
func TestPublished(t *testing.T) {
	tr := must.Get(Parse("x.0.et", 0, unhex(t, published)))(t)
	must.Do(t, tr.Check(8))
	want := []Node{{ID: 1, Name: "All-Reduce", Type: Coll, Collective: AllReduce, Bytes: 1 << 20}}
	if d := cmp.Diff(want, tr.Nodes); d != "" || tr.Version != "0.0.4" || len(tr.Unused()) > 0 {
		t.Error(d, tr.Version, tr.Unused())
	}
}

// TestOlderSchemas reads nodes with a list of parents, which stand alone or packed, with and without metadata.
func TestOlderSchemas(t *testing.T) {
	number := func(b []byte, field protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
	}
	// The first schema: parent is field 4, node_type 3 is COMP, 6 is COMM_COLL, comm_type 4 is REDUCE_SCATTER.
	comp := number(number(number(appendString(number(nil, 1, 5), 2, "fwd"), 3, 3), 7, 12), 12, 1000)
	coll := number(number(number(number(number(appendString(number(nil, 1, 6), 2, "rs"), 3, 6), 4, 5), 13, 4), 14, 1), 18,
		4096)
	first := must.Get(Parse("x.0.et", 0, protowire.AppendBytes(protowire.AppendBytes(nil, comp), coll)))(t)
	want := []Node{{ID: 5, Name: "fwd", Type: Comp, Duration: 12 * event.Microsecond, Ops: 1000},
		{ID: 6, Name: "rs", Type: Coll, CtrlDeps: []uint64{5}, Collective: ReduceScatter, Bytes: 4096}}
	if d := cmp.Diff(want, first.Nodes); d != "" {
		t.Error(d)
	}
	// Without metadata, but with attributes: the nodes have today's numbers.
	later := number(number(appendString(number(nil, 1, 6), 2, "fwd"), 3, uint64(Comp)), 4, 5)
	later = appendMessage(later, 10, Integer("runtime", 9).message)
	tr := must.Get(Parse("x.0.et", 0, protowire.AppendBytes(nil, later)))(t)
	want = []Node{{ID: 6, Name: "fwd", Type: Comp, CtrlDeps: []uint64{5}, Duration: 9 * event.Microsecond}}
	if d := cmp.Diff(want, tr.Nodes); d != "" {
		t.Error(d)
	}
}

// TestBadTraces plants a fault in a trace and expects a message with the file, the node's id and its name.
func TestBadTraces(t *testing.T) {
	attr := func(name string, kind Kind, v any) []Attr { return attributes(t, []typed{{name, "", kind, v}}) }
	coll := Node{ID: 4, Name: "grad", Type: Coll, Bytes: 8}
	for _, c := range []struct {
		change func(*Node)
		want   string
	}{
		{func(n *Node) { n.Bytes = 0 }, `x.0.et: node 4 "grad": comm_size is 0: want 1 to 2^40 bytes`},
		{func(n *Node) { n.Bytes = 1 << 60 }, `x.0.et: node 4 "grad": comm_size is 1152921504606846976: want`},
		{func(n *Node) { n.Extra = attr("comm_size", Int64, int64(-1)) }, `node 4 "grad": comm_size is -1`},
		{func(n *Node) { n.Collective = 12 }, `node 4 "grad": comm_type is 12: want 0 (allreduce) to 9 (barrier)`},
		{func(n *Node) {
			n.Extra = attr("comm_type", String, "ring")
		}, `node 4 "grad": comm_type is "ring": want an integer, or a name such as ALL_REDUCE`},
		{func(n *Node) { n.CtrlDeps = []uint64{17} }, `x.0.et: node 4 "grad": it depends on node 17, which does not exist`},
		{func(n *Node) { n.ID = 3 }, `x.0.et: node 3 "grad": its id is also the id of "fwd"`},
		{func(n *Node) { n.Type, n.Dst = Send, 9 }, `node 4 "grad": comm_dst is 9: want 0 to 7, because there are 8 traces`},
		{func(n *Node) { n.Type, n.Dst = Send, 0 }, `node 4 "grad": comm_dst is the rank itself`},
		{func(n *Node) {
			n.Type, n.Src, n.Dst = Send, 2, 1
		}, `a COMM_SEND from rank 2 to rank 1, but in the trace of rank 0`},
		{func(n *Node) { n.Duration = 2 * maxDuration }, `node 4 "grad": duration_micros is more than a day`},
		{func(n *Node) { n.Type, n.TensorBytes = MemLoad, 1<<60 }, `node 4 "grad": tensor_size is 1152921504606846976`},
		{func(n *Node) { n.Extra = attr("involved_dim", Bool.List(), []any{true, false}) }, `involved_dim is [true false]`},
	} {
		n := coll
		c.change(&n)
		data := encoded(t, &Trace{Nodes: []Node{{ID: 3, Name: "fwd", Type: Comp}, n}})
		tr, err := Parse("x.0.et", 0, data)
		if err == nil {
			err = tr.Check(8)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "x.0.et") {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// FuzzParse reads damaged traces. They must not crash the reader, and what it accepts can be written and read again.
func FuzzParse(f *testing.F) {
	f.Add(encoded(f, sample(f)))
	f.Add(unhex(f, published))
	f.Add(make([]byte, 64))
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := Parse("x.1.et", 1, data)
		if err != nil || tr.Check(4) != nil {
			return
		}
		if _, err := tr.Groups(4); err != nil {
			return
		}
		again := must.Get(Parse("x.1.et", 1, encoded(t, tr)))(t)
		attrs := cmp.AllowUnexported(Attr{})
		if d := cmp.Diff(tr.Nodes, again.Nodes, attrs, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); d != "" {
			t.Error(d)
		}
	})
}

// TestBadFiles reads files that are damaged at every byte, and sets of files with gaps.
func TestBadFiles(t *testing.T) {
	data := encoded(t, sample(t))
	whole := 0
	for end := range data {
		if _, err := Parse("x.0.et", 1, data[:end]); err == nil {
			whole++
		} else if !strings.Contains(err.Error(), "x.0.et") {
			t.Fatalf("%d bytes: %v", end, err)
		}
		flipped := bytes.Clone(data)
		flipped[end] ^= 0xff
		_, _ = Parse("x.0.et", 1, flipped) // must not panic
	}
	if nodes := len(sample(t).Nodes); whole != nodes {
		t.Errorf("%d prefixes were accepted, want %d: one for each complete message but the last", whole, nodes)
	}
	if _, err := Parse("x.0.et", 0, make([]byte, 9)); err == nil || !strings.Contains(err.Error(), "message 2 is empty") {
		t.Error(err)
	}
	folder := t.TempDir()
	prefix := filepath.Join(folder, "s")
	write := func(rank int, data []byte) { must.Do(t, os.WriteFile(FileName(prefix, rank), data, 0o600)) }
	expect := func(want string) {
		t.Helper()
		if _, err := Read(prefix); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	expect("there is no trace " + prefix + ".0.et")
	write(1, data)
	write(3, data)
	expect(prefix + ".0.et of rank 0 is missing: there are 2 traces, up to rank 3")
	write(0, unhex(t, published))
	expect(prefix + ".2.et of rank 2 is missing")
	write(2, data[:len(data)-1])
	expect("s.2.et is truncated or has a wrong length")
}
