package dataset

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Key returns the identity of a row's point: bench, part, ranks, backend, axes, environment and options,
// independent of their order, and the build or run if rows of several are shown together. All trials of a point have
// the same key, in this run and in others. (The
// key stored in a row is another one. It also covers the bench's version and input files, so it never
// matches across builds.)
//
// Coordinates named in ignore are left out, except Sharing: ranks that share a GPU exchange data through
// its memory and not over links, so they are never the same point as ranks on separate GPUs.
func Key(r *journal.Row, ignore ...string) string {
	var text [512]byte
	var buf [32][]byte
	b, parts := text[:0], buf[:0]
	add := func(class byte, name, value string) {
		if class != 's' && slices.Contains(ignore, name) {
			return
		}
		start := len(b)
		b = appendField(appendField(append(b, class), name), value)
		parts = append(parts, b[start:len(b):len(b)])
	}
	if r.NumRanks != nil {
		add('n', NumRanks, strconv.Itoa(*r.NumRanks))
	}
	add('b', Backend, r.Backend)
	if n := r.Sharing(); n > 0 {
		add('s', Sharing, strconv.Itoa(n))
	}
	for _, c := range r.Point {
		add('a', c.Name, c.Value.String())
	}
	for _, e := range r.Env {
		if e.Set {
			add('e', e.Name, e.Value)
		} else {
			add('u', e.Name, "")
		}
	}
	if name := buildOf(r); name != "" {
		add('v', Build, name)
	}
	for _, c := range r.Options {
		add('o', c.Name, c.Value.String())
	}
	for i := range parts { // insertion sort: there are few parts, mostly in order already
		for k := i; k > 0 && bytes.Compare(parts[k], parts[k-1]) < 0; k-- {
			parts[k], parts[k-1] = parts[k-1], parts[k]
		}
	}
	var whole [512]byte
	key := appendField(appendField(whole[:0], r.Bench), r.Part)
	for _, part := range parts {
		key = append(key, part...)
	}
	return string(key)
}

// appendField appends the length of s and then s, so that "a"+"bc" differs from "ab"+"c".
func appendField(b []byte, s string) []byte {
	return append(append(strconv.AppendInt(b, int64(len(s)), 10), ':'), s...)
}

// Label returns the point as text: "allreduce/latency num_ranks=2 backend=cpu size=64Ki".
func Label(r *journal.Row, ignore ...string) string {
	return strings.Join(append([]string{BenchPart(r)}, LabelFields(r, ignore...)...), " ")
}

// LabelFields returns the NAME=VALUE fields of a label. It leaves out the ignored coordinates, and options,
// because they are long and rarely differ between points.
func LabelFields(r *journal.Row, ignore ...string) []string {
	var out []string
	if r.NumRanks != nil && !slices.Contains(ignore, NumRanks) {
		out = append(out, NumRanks+"="+strconv.Itoa(*r.NumRanks))
	}
	if r.Backend != "" && !slices.Contains(ignore, Backend) {
		out = append(out, Backend+"="+r.Backend)
	}
	if n := r.Sharing(); n > 0 {
		out = append(out, Sharing+"="+strconv.Itoa(n))
	}
	for _, c := range r.Point.Without(ignore...) {
		out = append(out, point.Point{c}.String())
	}
	for _, e := range r.Env {
		if !slices.Contains(ignore, e.Name) {
			out = append(out, point.Env{e}.String())
		}
	}
	return out
}

// BenchPart returns "BENCH", or "BENCH/PART" if the row belongs to a part.
func BenchPart(r *journal.Row) string {
	if r.Part == "" {
		return r.Bench
	}
	return r.Bench + "/" + r.Part
}
