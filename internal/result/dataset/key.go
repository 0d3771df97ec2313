package dataset

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
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
	for _, c := range coords(r, ignore) {
		start := len(b)
		b = appendField(appendField(append(b, byte(c.class)), c.name), c.value)
		parts = append(parts, b[start:len(b):len(b)])
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

// CoordNames returns the distinct names of the rows' coordinates in order of appearance.
func CoordNames(rows Set) []string {
	var names lists.Set[string]
	for _, r := range rows {
		for _, c := range coords(r, nil) {
			names.Add(c.name)
		}
	}
	return names.List
}

// CoordText returns the row's coordinate of that name as users write it, and whether the
// row has one.
func CoordText(r *journal.Row, name string) (text string, has bool) {
	c, has := lists.First(coords(r, nil), func(c coord) bool { return c.name == name })
	return c.text(), has
}

// CoordTexts returns the set of values of each coordinate over all rows.
func CoordTexts(rows Set) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, r := range rows {
		for _, c := range coords(r, nil) {
			if out[c.name] == nil {
				out[c.name] = map[string]bool{}
			}
			out[c.name][c.text()] = true
		}
	}
	return out
}

// coord is one coordinate of a row.
type coord struct {
	class       coordClass
	name, value string
}

// coordClass distinguishes coordinates of the same name: an axis from a variable or an
// option, and an unset variable from one that is set to any text.
type coordClass byte

const (
	ranksClass   coordClass = 'n'
	backendClass coordClass = 'b'
	sharingClass coordClass = 's'
	axisClass    coordClass = 'a'
	envClass     coordClass = 'e'
	unsetClass   coordClass = 'u'
	optionClass  coordClass = 'o'
	buildClass   coordClass = 'v'
)

// text returns the value as users write it.
func (c coord) text() string {
	if c.class == unsetClass {
		return point.EnvVar{}.Text()
	}
	return c.value
}

// coords returns the coordinates of a row, without the ignored ones.
func coords(r *journal.Row, ignore []string) []coord {
	all := make([]coord, 0, len(r.Point)+len(r.Env)+len(r.Options)+2)
	if r.NumRanks != nil {
		all = append(all, coord{ranksClass, NumRanks, strconv.Itoa(*r.NumRanks)})
	}
	all = append(all, coord{backendClass, Backend, r.Backend})
	if n := r.Sharing(); n > 0 {
		all = append(all, coord{sharingClass, Sharing, strconv.Itoa(n)})
	}
	for _, c := range r.Point {
		all = append(all, coord{axisClass, c.Name, c.Value.String()})
	}
	for _, e := range r.Env {
		class := unsetClass
		if e.Set {
			class = envClass
		}
		all = append(all, coord{class, e.Name, e.Value})
	}
	if name := buildOf(r); name != "" {
		all = append(all, coord{buildClass, Build, name})
	}
	for _, c := range r.Options {
		all = append(all, coord{optionClass, c.Name, c.Value.String()})
	}
	if len(ignore) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(c coord) bool { return c.class != sharingClass && slices.Contains(ignore, c.name) })
}
