// Package rowkey says which rows are the same point: trials of one point share
// a key, and so do the rows of one point in two runs. It differs from the key
// stored in a row, which also covers the bench's version and input files and
// so never matches across builds.
package rowkey

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The coordinates of a row that are not axes, by the names people use.
const (
	NumRanks = "num_ranks"
	Backend  = "backend"
	Sharing  = journal.SharingDetail // ranks that shared a GPU: never the same point as ranks with one each
)

// Of is the identity of a row's point: bench, part, ranks, backend, axes,
// environment and options, whatever their order. Coordinates named in ignore
// are left out; not how many ranks shared a GPU, which makes the time another's.
func Of(r *journal.Row, ignore ...string) string {
	var text [512]byte
	var buf [32][]byte
	b, parts := text[:0], buf[:0]
	for _, c := range coords(r, ignore) {
		start := len(b)
		b = field(field(append(b, c.class), c.name), c.value)
		parts = append(parts, b[start:len(b):len(b)])
	}
	for i := range parts { // few, and mostly in order
		for k := i; k > 0 && bytes.Compare(parts[k], parts[k-1]) < 0; k-- {
			parts[k], parts[k-1] = parts[k-1], parts[k]
		}
	}
	var whole [512]byte
	key := field(field(whole[:0], r.Bench), r.Part)
	for _, part := range parts {
		key = append(key, part...)
	}
	return string(key)
}

// field appends a text behind its length, which keeps "a"+"bc" apart from "ab"+"c".
func field(b []byte, s string) []byte {
	return append(append(strconv.AppendInt(b, int64(len(s)), 10), ':'), s...)
}

// Label is the point in words, "allreduce/latency num_ranks=2 backend=cpu
// size=64Ki".
func Label(r *journal.Row, ignore ...string) string {
	return strings.Join(append([]string{Group(r)}, Fields(r, ignore...)...), " ")
}

// Fields are the words of a label that name a coordinate each, without the
// ignored ones and without options, which are alike for most points and long.
func Fields(r *journal.Row, ignore ...string) []string {
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

// Group is what rows of one table have in common: "bench" or "bench/part".
func Group(r *journal.Row) string {
	if r.Part == "" {
		return r.Bench
	}
	return r.Bench + "/" + r.Part
}

// Names are the coordinates that rows have, each once, in the order of the first
// row that has it.
func Names(rows []journal.Row) []string {
	var names lists.Set[string]
	for i := range rows {
		for _, c := range coords(&rows[i], nil) {
			names.Add(c.name)
		}
	}
	return names.List
}

// Value is a row's coordinate of a name, as people write it, if it has one.
func Value(r *journal.Row, name string) (text string, has bool) {
	c, has := lists.First(coords(r, nil), func(c coord) bool { return c.name == name })
	return c.text(), has
}

// Values are those that the rows have of each coordinate.
func Values(rows []journal.Row) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for i := range rows {
		for _, c := range coords(&rows[i], nil) {
			if out[c.name] == nil {
				out[c.name] = map[string]bool{}
			}
			out[c.name][c.text()] = true
		}
	}
	return out
}

// coord is one coordinate; its class keeps an axis apart from an environment
// variable or an option of the same name, and an unset variable from one set
// to any text.
type coord struct {
	class       byte
	name, value string
}

// text is the value as people write it.
func (c coord) text() string {
	if c.class == 'u' {
		return point.EnvVar{}.Text()
	}
	return c.value
}

func coords(r *journal.Row, ignore []string) []coord {
	all := make([]coord, 0, len(r.Point)+len(r.Env)+len(r.Options)+2)
	if r.NumRanks != nil {
		all = append(all, coord{'n', NumRanks, strconv.Itoa(*r.NumRanks)})
	}
	all = append(all, coord{'b', Backend, r.Backend})
	if n := r.Sharing(); n > 0 {
		all = append(all, coord{'s', Sharing, strconv.Itoa(n)})
	}
	for _, c := range r.Point {
		all = append(all, coord{'a', c.Name, c.Value.String()})
	}
	for _, e := range r.Env {
		class := byte('u')
		if e.Set {
			class = 'e'
		}
		all = append(all, coord{class, e.Name, e.Value})
	}
	for _, c := range r.Options {
		all = append(all, coord{'o', c.Name, c.Value.String()})
	}
	if len(ignore) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(c coord) bool { return c.class != 's' && slices.Contains(ignore, c.name) })
}
