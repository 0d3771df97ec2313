package bench

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// RanksAxis is the name of the axis that holds the number of ranks. It is an
// axis like any other in the grammar, but a launch property in the plan.
const RanksAxis = "num_ranks"

// BackendName is reserved beside the axes: filters and tables use it.
const BackendName = "backend"

// Body is the code of a benchmark. It runs once per point on every rank: what
// it does before State.Time is untimed set-up. Returning Skip drops the point
// with a reason; any other error, and a panic, is a failed row.
type Body func(ctx context.Context, s *State) error

// Bench is a benchmark or an evaluation: one part, or a suite of them, with
// options shared by all parts and the views drawn from their rows.
type Bench struct {
	Name    string
	Help    string // one line for `kernbench list`
	Doc     string // longer text and examples for --help
	Version string // changes when stored rows are no longer comparable
	Parts   []*DeclaredPart
	Options []DeclaredOption

	// Backends lists what the bench can run on, the default first. Empty
	// means cpu only.
	Backends []string

	// Presets are chosen by --profile; without it the axes are as declared.
	Presets []Preset

	// Helpers are functions that bodies run in a process of its own, by name.
	Helpers map[string]func(args []string) error

	// Out is the RUN folder used when --out is not given; empty means
	// out/<name>.
	Out string

	// Accumulate makes views merge all runs of the folder by point instead of
	// showing the latest run alone.
	Accumulate bool

	// Derive adds what follows from other rows (a speed-up over the row of one
	// rank, say) to the rows that are shown. It is pure and keeps every row; it
	// may change the Metrics and Warnings it replaces, never those it was given.
	Derive func(rows []journal.Row) []journal.Row

	// Figures and Sections are pure: the same rows give the same views.
	Figures  func(rows []journal.Row) []figure.Figure
	Sections func(rows []journal.Row) []Section

	// Exports are files of the bench's own, made from its rows: a table in a
	// format that others read, a page.
	Exports func(rows []journal.Row) ([]File, error)

	// Artifacts are the files, exports and figures alike, that must be in the
	// RUN folder after a run with these rows; one that is missing fails it.
	Artifacts func(rows []journal.Row) []string

	errs []error // faults met while declaring, reported by Validate
}

// DeclaredPart is one sweep: axes, environment, and what runs at each of their points.
type DeclaredPart struct {
	Name    string // empty for the only part of a plain bench
	Help    string
	Axes    []DeclaredAxis
	Envs    []EnvAxis
	Zips    [][]string // names that move together; axes and env may be mixed
	Wheres  []Where
	On      map[string][]DeclaredAxis // by backend: axes that have other values there
	Metrics []journal.MetricInfo

	Body    Body     // either a body of this program
	Command *Command // or somebody else's program

	Timeout time.Duration // per point and trial; 0 means DefaultTimeout
	Trials  int           // 0 means 1
	Measure measure.Config
}

// DefaultTimeout bounds a point whose bench does not say.
const DefaultTimeout = 2 * time.Minute

// Where is a pure predicate over a point: an error drops the point, and its
// text is the reason that is recorded.
type Where func(p point.Point) error

// DeclaredAxis is a swept parameter.
type DeclaredAxis struct {
	Name   string
	Kind   point.Kind
	Values []point.Value
}

// EnvAxis is a swept environment variable. Changing it needs new processes.
type EnvAxis struct {
	Name   string
	Values []point.EnvVar
}

// DeclaredOption is a parameter with one value per run. It is recorded in every row
// and is part of a point's identity, but it is not swept.
type DeclaredOption struct {
	Name    string
	Kind    point.Kind
	Default point.Value
	Help    string
	Choices []string // the allowed texts; empty means any
	Above0  bool     // a number that must be
	File    bool     // the value names a file: recorded with its SHA-256
}

// Command is a program run once per rank and point instead of a body.
type Command struct {
	Argv  []string // {axis} is replaced by the axis' value; never a shell
	Dir   string
	Parse ParseOutput
	// OwnRanks is set for a program that starts its own processes: it is run
	// once, and the row's num_ranks is null.
	OwnRanks bool
	// Inputs are what a row depends on besides its point, by SHA-256: the
	// command, the scripts it names, how its output is read.
	Inputs map[string]string
	// Columns are the coordinates that the output's tables are known to add.
	Columns []DeclaredAxis
}

// RankOutput is what one rank of a program left behind.
type RankOutput struct {
	Rank   int
	Stdout []byte
	Stderr []byte
	Wall   time.Duration
}

// ParsedRow is one row found in a program's output. Extra coordinates (the key
// columns of a table) are added to the point.
type ParsedRow struct {
	Extra   point.Point
	Samples map[string][]float64 // by metric; one or more values each
}

// ParseOutput turns the output of all ranks into rows. No row is an error.
type ParseOutput func(ranks []RankOutput) ([]ParsedRow, error)

// Section is a piece of a report in words: Markdown with an optional table or
// grid.
type Section struct {
	Title string
	Text  string // paragraphs and lists; rendered escaped, never as HTML
	Table [][]string
	Grid  *Grid
	Lead  bool // says what matters most: it stands before all else
	// Headline sections are what a run prints at its end, in place of the table
	// of all rows.
	Headline bool
}

// Grid is a matrix of cells that are told apart by colour: what passed, what
// failed, what did not run.
type Grid struct {
	Corner  string   // names the rows
	Columns []string // headings
	Rows    []GridRow
}

// GridRow is a line of a grid, a cell for each column.
type GridRow struct {
	Name  string
	Cells []GridCell
}

// GridCell is one cell; its status decides the colour, and one without a status
// is empty.
type GridCell struct {
	Status journal.Status
	Text   string // short: a count, a name
	Note   string // shown where the reader points
}

// Preset is a named set of axis values, such as a longer profile of the same
// bench. What the command line says of an axis stands above it.
type Preset struct {
	Name string
	Axes [][2]string // axis and SPEC
}

// File is one export: its name within the RUN folder, and what it holds.
type File struct {
	Name string
	Data []byte
}

// ValidName reports whether a bench, axis, option or metric may be called so.
func ValidName(s string) bool { return nameRE.MatchString(s) }

// ValidEnvName reports whether an environment variable may be swept under
// this name.
func ValidEnvName(s string) bool { return envRE.MatchString(s) }

var nameRE = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)
var envRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Validate reports every fault of the declaration at once.
func (b *Bench) Validate() error {
	errs := slices.Clone(b.errs)
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(format, args...))
	}
	if !ValidName(b.Name) {
		fault("name %q: want letters, digits, _ . -, starting with a letter", b.Name)
	}
	if len(b.Parts) == 0 {
		fault("it has nothing to run: no part")
	}
	options := map[string]bool{}
	for _, o := range b.Options {
		if !ValidName(o.Name) {
			fault("option name %q: want letters, digits, _ . -, starting with a letter", o.Name)
		}
		if options[o.Name] {
			fault("option %q is declared twice", o.Name)
		}
		options[o.Name] = true
	}
	parts := map[string]bool{}
	for _, p := range b.Parts {
		if parts[p.Name] {
			fault("part %q is declared twice", p.Name)
		}
		parts[p.Name] = true
		for _, err := range p.faults(options) {
			if p.Name != "" {
				err = fmt.Errorf("part %s: %w", p.Name, err)
			}
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("bench %q: %w", b.Name, errors.Join(errs...))
}

func (p *DeclaredPart) faults(options map[string]bool) (errs []error) {
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if (p.Body == nil) == (p.Command == nil) {
		fault("it needs either a body or a command")
	}
	seen := map[string]string{}
	declare := func(what, name string) {
		if old, clash := seen[name]; clash {
			fault("%s %q clashes with the %s of that name", what, name, old)
		}
		if options[name] {
			fault("%s %q clashes with the option of that name", what, name)
		}
		seen[name] = what
	}
	for _, a := range p.Axes {
		if !ValidName(a.Name) || a.Name == BackendName {
			fault("axis name %q: want letters, digits, _ . -, starting with a letter, and not %q", a.Name, BackendName)
		}
		declare("axis", a.Name)
		if len(a.Values) == 0 {
			fault("axis %q has no values", a.Name)
		}
		if a.Name == RanksAxis {
			for _, v := range a.Values {
				if v.Int() < 1 {
					fault("axis %s holds %v: a launch needs at least one rank", RanksAxis, v)
				}
			}
		}
		if dup, has := firstDuplicate(a.Values); has {
			fault("axis %q holds %v twice", a.Name, dup)
		}
	}
	for _, e := range p.Envs {
		if !ValidEnvName(e.Name) {
			fault("environment variable %q: want letters, digits and _, not starting with a digit", e.Name)
		}
		declare("environment variable", e.Name)
		if len(e.Values) == 0 {
			fault("environment variable %q has no values", e.Name)
		}
		if dup, has := firstDuplicate(e.Values); has {
			fault("environment variable %q holds %s twice", e.Name, dup.Text())
		}
	}
	for backend, axes := range p.On {
		for _, a := range axes {
			if own, has := p.Axis(a.Name); !has || own.Kind != a.Kind || len(a.Values) == 0 {
				fault("on backend %s: %q is no axis of that kind: declare it before", backend, a.Name)
			}
		}
	}
	errs = append(errs, p.zipFaults(seen)...)
	return errs
}

// zipFaults checks that zipped names exist, are zipped once and have equally
// many values.
func (p *DeclaredPart) zipFaults(known map[string]string) (errs []error) {
	zipped := map[string]bool{}
	for _, z := range p.Zips {
		if len(z) < 2 {
			errs = append(errs, fmt.Errorf("zip of %s: at least two names move together", strings.Join(z, ",")))
			continue
		}
		first := -1
		for _, name := range z {
			if _, ok := known[name]; !ok {
				errs = append(errs, fmt.Errorf("zip names %q, which is neither an axis nor an environment variable", name))
				continue
			}
			if zipped[name] {
				errs = append(errs, fmt.Errorf("%q is zipped twice", name))
			}
			zipped[name] = true
			n := p.valueCount(name)
			if first < 0 {
				first = n
			} else if n != first {
				errs = append(errs, fmt.Errorf("zip of %s: %q has %d values, %q has %d: names that move together need equally many",
					strings.Join(z, ","), z[0], first, name, n))
			}
		}
	}
	return errs
}

func (p *DeclaredPart) valueCount(name string) int {
	for _, a := range p.Axes {
		if a.Name == name {
			return len(a.Values)
		}
	}
	for _, e := range p.Envs {
		if e.Name == name {
			return len(e.Values)
		}
	}
	return 0
}

func firstDuplicate[T comparable](values []T) (dup T, has bool) {
	seen := make(map[T]bool, len(values))
	for _, v := range values {
		if seen[v] {
			return v, true
		}
		seen[v] = true
	}
	return dup, false
}

// Axis returns the named axis of the part.
func (p *DeclaredPart) Axis(name string) (DeclaredAxis, bool) {
	for _, a := range p.Axes {
		if a.Name == name {
			return a, true
		}
	}
	return DeclaredAxis{}, false
}

// Option returns the named option of the bench.
func (b *Bench) Option(name string) (DeclaredOption, bool) {
	for _, o := range b.Options {
		if o.Name == name {
			return o, true
		}
	}
	return DeclaredOption{}, false
}

// Part returns the part of that name.
func (b *Bench) Part(name string) (*DeclaredPart, bool) {
	for _, p := range b.Parts {
		if p.Name == name {
			return p, true
		}
	}
	return nil, false
}
