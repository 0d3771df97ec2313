package chakra

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/must"
)

// number and text return the bytes of a field. They share no code with the package.
func number(field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), v)
}

func text(field protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), content)
}

// attribute returns the field of an attribute. An integer has one of the kinds that writers use, or is a text.
func attribute(t *rapid.T, name string, v int64) []byte {
	var value []byte
	switch kind := rapid.SampledFrom([]Kind{Int32, Int64, Uint32, Uint64, Sint64, Fixed64, Double, String}).Draw(t,
		name); kind {
	case Sint64:
		value = number(protowire.Number(kind), protowire.EncodeZigZag(v))
	case Fixed64:
		value = protowire.AppendFixed64(protowire.AppendTag(nil, protowire.Number(kind), protowire.Fixed64Type), uint64(v))
	case Double:
		bits := math.Float64bits(float64(v))
		value = protowire.AppendFixed64(protowire.AppendTag(nil, protowire.Number(kind), protowire.Fixed64Type), bits)
	case String:
		value = text(protowire.Number(kind), []byte(fmt.Sprint(v)))
	default:
		value = number(protowire.Number(kind), uint64(v))
	}
	parts := [][]byte{text(1, []byte(name)), value}
	if rapid.Bool().Draw(t, "documented") {
		parts = append(parts, text(2, []byte("doc")))
	}
	return text(10, slices.Concat(rapid.Permutation(parts).Draw(t, "attribute")...))
}

// ids returns the fields of a list of ids: each alone, or packed into one field.
func ids(t *rapid.T, field protowire.Number, list []uint64) (out [][]byte) {
	var packed []byte
	for _, id := range list {
		if rapid.Bool().Draw(t, "packed") {
			packed = protowire.AppendVarint(packed, id)
		} else {
			out = append(out, number(field, id))
		}
	}
	if len(packed) > 0 {
		out = append(out, text(field, packed))
	}
	return out
}

// TestOtherWriters reads traces as other programs may write them: fields in any order, numbers of any kind, lists
// packed or not, an id of 0 that is absent, unknown fields, with or without metadata, compressed or not.
func TestOtherWriters(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var want []Node
		var file []byte
		unknown := 0
		add := func(fields [][]byte) {
			file = protowire.AppendBytes(file, slices.Concat(rapid.Permutation(fields).Draw(rt, "order")...))
		}
		if rapid.Bool().Draw(rt, "metadata") {
			add([][]byte{text(1, []byte("0.0.4")), text(2, slices.Concat(text(1, []byte("schema")), text(29, []byte("x"))))})
		}
		for i := range rapid.IntRange(1, 4).Draw(rt, "nodes") {
			n := Node{ID: uint64(i), Name: fmt.Sprint("n", i)}
			fields := [][]byte{text(2, []byte(n.Name)), number(7, 25)}
			n.Duration = 25 * event.Microsecond
			if i > 0 || rapid.Bool().Draw(rt, "id 0") {
				fields = append(fields, number(1, uint64(i)))
			}
			for k := range i {
				if rapid.Bool().Draw(rt, "control") {
					n.CtrlDeps = append(n.CtrlDeps, uint64(k))
				} else {
					n.DataDeps = append(n.DataDeps, uint64(k))
				}
			}
			fields = append(append(fields, ids(rt, 4, n.CtrlDeps)...), ids(rt, 5, n.DataDeps)...)
			if rapid.Bool().Draw(rt, "unknown") {
				fields, unknown = append(fields, number(77, 1), text(78, []byte("new"))), unknown+2
			}
			attr := func(name string, into *int64, v int64) {
				*into = v
				fields = append(fields, attribute(rt, name, v))
			}
			if rapid.Bool().Draw(rt, "collective") {
				n.Type = Coll
				var kind int64
				attr("comm_type", &kind, rapid.Int64Range(0, int64(collectives)-1).Draw(rt, "kind"))
				n.Collective = Collective(kind)
				attr("comm_size", &n.Bytes, rapid.Int64Range(1, 1<<31-1).Draw(rt, "size"))
			} else {
				n.Type = Comp
				attr("num_ops", &n.Ops, rapid.Int64Range(0, 1<<31-1).Draw(rt, "ops"))
			}
			fields = append(fields, number(3, uint64(n.Type)))
			want = append(want, n)
			add(fields)
		}
		if rapid.Bool().Draw(rt, "compressed") {
			file = zipped(rt, file)
		}
		got := must.Get(Parse("x.0.et", 0, file))(rt)
		must.Do(rt, got.Check(1))
		sorted := cmpopts.SortSlices(func(a, b uint64) bool { return a < b })
		if d := cmp.Diff(want, got.Nodes, sorted, cmpopts.EquateEmpty()); d != "" {
			rt.Fatal(d)
		}
		counts := got.Unused()
		if n := counts["field 77 of a node"] + counts["field 78 of a node"]; n != unknown {
			rt.Fatalf("%d unknown fields are listed, want %d: %v", n, unknown, counts)
		}
	})
}

func zipped(t must.T, data []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	must.Get(z.Write(data))(t)
	must.Do(t, z.Close())
	return out.Bytes()
}

// TestCompressed reads files that gzip has compressed, under their own name or with its suffix, and damaged ones.
func TestCompressed(t *testing.T) {
	data := zipped(t, unhex(t, published))
	prefix := filepath.Join(t.TempDir(), "s")
	must.Do(t, os.WriteFile(FileName(prefix, 0), data, 0o600))
	must.Do(t, os.WriteFile(FileName(prefix, 1)+".gz", data, 0o600))
	traces := must.Get(Read(prefix))(t)
	if len(traces) != 2 || traces[1].Nodes[0].Bytes != 1<<20 || !strings.HasSuffix(traces[1].File, "s.1.et.gz") {
		t.Errorf("%+v", traces)
	}
	for _, damaged := range [][]byte{data[:5], data[:len(data)-9], append(bytes.Clone(data[:12]), make([]byte, 9)...)} {
		if _, err := Parse("x.0.et", 0, damaged); err == nil || !strings.Contains(err.Error(), "x.0.et: decompressing") {
			t.Errorf("%v", err)
		}
	}
}

// TestNames reads the names of collectives in place of their numbers.
func TestNames(t *testing.T) {
	n := Node{ID: 4, Name: "grad", Type: Coll, Bytes: 8}
	n.Extra = []Attr{textual("comm_type", "ALL_TO_ALL")}
	tr := must.Get(Parse("x.0.et", 0, encoded(t, &Trace{Nodes: []Node{n}})))(t)
	if got := tr.Nodes[0].Collective; got != AllToAll {
		t.Errorf("%v", got)
	}
}
