// Package machine is what simulated rows were made on: the option by which a user names the
// files that describe it, what rows say of it, and how figures and tables of several machines
// tell them apart. It simulates nothing and knows no bench and no backend.
package machine

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// Option is the name of the option, and, of the details of a row, the name of the file.
const Option = journal.TopologyDetail

// Arrangement is the name of the option, or axis, that says how many SIPs there are and who is whose
// neighbour, whatever the file says.
const Arrangement = "sips"

// More details of a row.
const (
	Grid   = "sip_grid" // width x height
	Hash   = journal.HashDetail
	Fabric = journal.FabricDetail
	Kind   = journal.KindDetail
)

// Files declares the option: a file, or several for a curve of each.
func Files(def, help string) bench.Clause {
	return bench.Sweepable(bench.FileOption(Option, def, help))
}

// Swept tells whether the value of the option is one of several.
func Swept(v bench.Value) bool {
	_, sha := v.File()
	return sha != "" || v.String() == bench.BuiltIn
}

// Options declares both: for benches whose backends may be simulated or not.
func Options(files string) []bench.Clause {
	return []bench.Clause{Files("", files), bench.Sweepable(bench.Option(Arrangement, bench.KindString, "",
		"SIPs of a simulated accelerator and who is whose neighbour, or several to compare: 4x4:torus, 8:ring, or mesh "+
			"for as many as the file has; empty is as the file says"))}
}

// arrangement is what the options say.
func arrangement(p, options bench.Point) string {
	v, swept := p.Get(Arrangement)
	if !swept {
		v = options.At(Arrangement)
	}
	return v.String()
}

// Note says in the row which file it was made with, and gives its path and text. Without one,
// path is empty and the text is what is built in.
func Note(s *bench.State, builtIn []byte) (path string, data []byte, err error) {
	path, data, err = s.File(Option)
	if err != nil {
		return path, nil, err
	}
	name := filepath.Base(path)
	if path == "" {
		name, data = bench.BuiltIn, builtIn
	}
	s.Detail(Option, name)
	if data != nil {
		s.Detail(Hash, fmt.Sprintf("%x", sha256.Sum256(data)))
	}
	return path, data, nil
}

// NearbyOn declares, for the backends among those named whose machine is described by files, the
// file of the current folder as the default there.
func NearbyOn(backends []string) (out []bench.Clause) {
	for _, name := range backends {
		if m, ok := dist.As[dist.MachineReader](name); ok && m.NearbyMachine() != "" {
			out = append(out, bench.On(name, Files(m.NearbyMachine(), "")))
		}
	}
	return out
}

// Refuse refuses files that the backend cannot use, before anything runs.
func Refuse(p, options bench.Point) error {
	path, arranged := bench.FilePath(p, options, Option), arrangement(p, options)
	backend := options.At(bench.BackendName)
	ranks := p.At(bench.RanksAxis)
	m, simulated := dist.As[dist.MachineReader](backend.String())
	_, swept := p.Get(Option)
	switch {
	case simulated && (path != "" || arranged != ""):
		return m.CheckMachine(path, arranged, int(ranks.Int()))
	case simulated:
		return nil
	case path != "" || swept:
		return fmt.Errorf("--%s is for simulated backends, which %s is not", Option, backend)
	case arranged != "":
		return fmt.Errorf("--%s is for simulated backends, which %s is not", Arrangement, backend)
	}
	return nil
}

// Ranks is how many ranks a group on the machine of the options has, 0 for any number.
func Ranks(p, options bench.Point) int {
	m, ok := dist.As[dist.MachineReader](options.At(bench.BackendName).String())
	if !ok {
		return 0
	}
	what, err := m.DescribeMachine(bench.FilePath(p, options, Option), arrangement(p, options))
	if err != nil {
		return 0 // Refuse says what is wrong
	}
	return what.Ranks
}

// Chosen is what a point is simulated on.
type Chosen struct {
	File        string // "" is what is built in
	Arrangement string // "" is as the file says
	Text        string // in a few words
}

// Describe is what the options say, and says it in the row. Where the backend's machine is real
// there is nothing to say.
func Describe(s *bench.State) (c Chosen, err error) {
	m, ok := dist.As[dist.MachineReader](s.Backend())
	if !ok {
		return c, nil
	}
	if c.File, _, err = s.File(Option); err != nil {
		return c, err
	}
	c.Arrangement = s.Str(Arrangement)
	what, err := m.DescribeMachine(c.File, c.Arrangement)
	if err != nil {
		return c, err
	}
	c.Text = what.Text
	for name, text := range what.Details {
		s.Detail(name, text)
	}
	_, _, err = Note(s, what.BuiltIn)
	return c, err
}

// Columns end the tables: what each row was simulated on.
func Columns() []string { return []string{Fabric, Option, Hash} }

// Cells are a row's.
func Cells(r *journal.Row) []string {
	return []string{r.Details[Fabric], r.Details[Option], r.Details[Hash]}
}

// identity is what makes rows those of one machine.
type identity struct{ name, hash, fabric string }

func of(r *journal.Row) identity {
	return identity{r.Details[Option], r.Details[Hash], r.Details[Fabric]}
}

// distinct are the machines of the good rows, in their order. Rows that were not simulated
// have none.
func distinct(rows rowset.Set) []identity {
	simulated := rows.Where(func(r *journal.Row) bool { return r.Status == journal.OK && of(r).hash != "" })
	return lists.Distinct(lists.Map(simulated, of))
}

// Labels tells the machines of rows apart: by the file's name, and where that is not enough by
// its hash or how messages move. It gives "" where all rows are of one machine, and for
// rows of none.
func Labels(rows rowset.Set) func(*journal.Row) string {
	all := distinct(rows)
	if len(all) < 2 {
		return func(*journal.Row) string { return "" }
	}
	labels := map[identity]string{}
	for _, id := range all {
		label := id.name
		if slices.ContainsFunc(all, func(o identity) bool { return o.name == id.name && o.hash != id.hash }) {
			label += fmt.Sprintf(" (%.8s)", id.hash)
		}
		if slices.ContainsFunc(all, func(o identity) bool {
			return o.name == id.name && o.hash == id.hash && o.fabric != id.fabric
		}) {
			label += ", " + id.fabric
		}
		labels[id] = label
	}
	return func(r *journal.Row) string { return labels[of(r)] }
}

// Curves tells apart the machines of rows that may also differ in the arrangement.
func Curves(rows rowset.Set) func(*journal.Row) string {
	label := Labels(rows)
	differ := len(rows.Distinct(Arrangement)) > 1
	return func(r *journal.Row) string {
		arranged := rowset.Text(r, Arrangement)
		switch l := label(r); {
		case !differ || arranged == "":
			return l
		case l == "":
			return arranged
		default:
			return l + ", " + arranged
		}
	}
}

// With is a name and a label after it, if there is one.
func With(name, label string) string {
	if label == "" {
		return name
	}
	return name + ", " + label
}

// Words says what the rows were simulated on, "" if nothing.
func Words(rows rowset.Set) string {
	var lines []string
	for _, id := range distinct(rows) {
		line := fmt.Sprintf("Simulated on topology %s (sha256 %.12s)", id.name, id.hash)
		if id.fabric != "" {
			line += ", fabric " + id.fabric
		}
		lines = append(lines, line+".")
	}
	return strings.Join(lines, " ")
}

// Caption puts that under every figure.
func Caption(figs []figure.Figure, rows []journal.Row) []figure.Figure {
	if words := Words(rowset.All(rows)); words != "" {
		for i := range figs {
			figs[i].AddCaption(words)
		}
	}
	return figs
}

// Product reads the shape of a product, MxKxN; one number is a cube.
func Product(v bench.Value) (m, k, n int, err error) {
	switch d := v.Dims(); len(d) {
	case 1:
		return int(d[0]), int(d[0]), int(d[0]), nil
	case 3:
		return int(d[0]), int(d[1]), int(d[2]), nil
	}
	return 0, 0, 0, fmt.Errorf("shape %v: want MxKxN, or one number for a cube", v)
}
