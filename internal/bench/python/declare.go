package python

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/inputs"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// greeting is the first request. It tells the program its rank.
type greeting struct {
	Protocol  int      `json:"protocol"`
	Rank      int      `json:"rank"`
	Ranks     int      `json:"num_ranks"`
	LocalRank int      `json:"local_rank"`
	Backend   string   `json:"backend"`
	Watch     []string `json:"watch"` // variables to report
}

// hello is the answer to a greeting: the declarations of the file, and the program's environment.
type hello struct {
	Benches []declared         `json:"benches"`
	Environ map[string]*string `json:"environ"`
	Clock   *programClock      `json:"clock"`   // clock of all points that name no other
	Source  string             `json:"source"`  // SHA-256 of the file; if empty, kernbench hashes the program
	Inputs  map[string]string  `json:"inputs"`  // SHA-256 of other files that the benches use
	Files   map[string]string  `json:"files"`   // paths of other files that the benches use
	Version string             `json:"version"` // versions of the interpreter and of imported libraries
}

// declared is one bench of a file.
type declared struct {
	Name     string               `json:"name"`
	Help     string               `json:"help"`
	Doc      string               `json:"doc"`
	Axes     []axis               `json:"axes"`
	Envs     []envAxis            `json:"envs"`
	Zips     [][]string           `json:"zips"`
	Wheres   int                  `json:"wheres"`
	Options  []option             `json:"options"`
	Metrics  []journal.MetricInfo `json:"metrics"`
	Timeout  float64              `json:"timeout"` // seconds
	Trials   int                  `json:"trials"`
	Backends []string             `json:"backends"`
	Sampling sampling             `json:"sampling"`

	taken func(name string) bool // reports whether a name is a flag or a column of kernbench
}

// axisPrefix qualifies an axis whose name is taken.
const axisPrefix = "axis."

// columnName returns the name of an axis in plans, rows and tables: its own, or a qualified one if its
// own is taken. The program does not see qualified names.
func (d declared) columnName(name string) string {
	if d.taken != nil && d.taken(name) && slices.ContainsFunc(d.Axes, func(a axis) bool { return a.Name == name }) {
		return axisPrefix + name
	}
	return name
}

// ownName returns the name by which the program knows an axis.
func (d declared) ownName(column string) string {
	own := func(name string) bool {
		return slices.ContainsFunc(d.Axes, func(a axis) bool { return a.Name == name })
	}
	if name, qualified := strings.CutPrefix(column, axisPrefix); qualified && !own(column) && own(name) {
		return name
	}
	return column
}

type axis struct {
	Name   string     `json:"name"`
	Type   point.Kind `json:"type"`
	Values []string   `json:"values"`
	Spec   string     `json:"spec"` // instead of values
	// Words maps the texts that the command line accepts to the values that they mean. If it is
	// empty, every text of the type is accepted.
	Words map[string]string `json:"words"`
}

type envAxis struct {
	Name   string    `json:"name"`
	Values []*string `json:"values"` // null: unset
}

type option struct {
	Name    string     `json:"name"`
	Type    point.Kind `json:"type"`
	Default string     `json:"default"`
	Help    string     `json:"help"`
	Choices []string   `json:"choices"`
}

type sampling struct {
	Cadence    bench.Cadence `json:"cadence"`
	Noise      *float64      `json:"noise"`
	Seconds    float64       `json:"seconds"`
	MinSamples int           `json:"min_samples"`
	MaxSamples int           `json:"max_samples"`
	// Repeat, if above 0, is a fixed number of samples, taken after Warmup calls.
	Warmup int `json:"warmup"`
	Repeat int `json:"repeat"`
}

// IsFile reports whether a file of benches belongs to this package: a Python file, or an executable
// program, which must speak the protocol.
func IsFile(path string) bool {
	if isPython(path) || isSocket(path) {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 &&
		!slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path))
}

func isPython(path string) bool { return filepath.Ext(path) == ".py" }

// ImportLimit is the default limit of the import of a file. Libraries that come from a slow network
// disk may need more.
const ImportLimit = time.Minute

// limitImport returns a context that ends when the import of a file has taken too long. 0 means
// ImportLimit.
func limitImport(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	limit = cmp.Or(limit, ImportLimit)
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("it was not imported within %v: give --import-timeout if it "+
		"needs longer", limit))
}

// ownFrame matches the lines of Python's stack dumps that belong to this package or to Python's
// import system.
var ownFrame = regexp.MustCompile(`(?m)^  File "(/proc/\d+/fd/\d+/|<string>"|<frozen ).*\n?`)

// Load returns the benches that a file declares. It imports a Python file once with the given
// interpreter (default python3), or starts the program. If the import takes longer than limit, the
// error has the stacks of its threads. 0 means ImportLimit.
//
// An axis for whose name taken is true gets a qualified name, axis.NAME. taken may be nil.
func Load(ctx context.Context, path, program string, limit time.Duration, taken func(string) bool) ([]*bench.Bench,
	error) {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return nil, fmt.Errorf("reading benches: %w", cmp.Or(err, fmt.Errorf("%s is a folder", path)))
	}
	script, err := script(path, program)
	if err != nil {
		return nil, err
	}
	var output bytes.Buffer // output of the import, shown only if it fails
	p, err := start(script, os.Environ(), &output, &output)
	if err != nil {
		return nil, err
	}
	limited, cancel := limitImport(ctx, limit)
	defer cancel()
	r, err := p.greet(limited, greeting{Protocol: protocol, Ranks: 1, Watch: []string{}})
	if err != nil {
		p.close()
		return nil, fmt.Errorf("%s: %w", path, texttab.WithDetail(err, ownFrame.ReplaceAllString(output.String(), "")))
	}
	script = append(script, r.Source)
	sums := maps.Clone(r.Inputs)
	if sums == nil {
		sums = map[string]string{}
	}
	sums[filepath.Base(path)] = r.Source
	tracked, err := track(script, r.Files)
	if err != nil {
		p.close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var benches []*bench.Bench
	asked := false
	for _, d := range r.Benches {
		d.taken = taken
		b, err := d.bench(ctx, p)
		if err != nil {
			p.close()
			return nil, fmt.Errorf("%s: bench %s: %w", path, d.Name, err)
		}
		b.Script, b.Inputs, b.Tracked = script, sums, tracked
		benches = append(benches, b)
		asked = asked || d.Wheres > 0
	}
	if !asked {
		p.close() // otherwise it stays to answer the planner, and ends with this process
	}
	if len(benches) == 0 {
		return nil, fmt.Errorf("%s: no bench is declared: put @bench.register on a function", path)
	}
	return benches, nil
}

// track hashes the interpreter, the file, and the other files that it names, or the program.
func track(script []string, files map[string]string) (*inputs.Set, error) {
	return inputs.Find(func(set *inputs.Set) (err error) {
		if interpreter, file := script[0], script[1]; interpreter != "" {
			err = errors.Join(set.File(filepath.Base(file), file), set.Interpreter(filepath.Base(interpreter), interpreter))
		} else {
			err = set.Program(filepath.Base(file), filepath.Dir(file), []string{"PATH=."})
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			err = errors.Join(err, set.File(name, files[name]))
		}
		return err
	})
}

// bench converts the declaration for the planner. Its body is a placeholder: workers replace it by
// [Program.Body].
func (d declared) bench(ctx context.Context, p *program) (*bench.Bench, error) {
	zips := lists.Map(d.Zips, func(z []string) []string { return lists.Map(z, d.columnName) })
	part := &decl.Part{Help: d.Help, Zips: zips, Metrics: d.Metrics, Trials: d.Trials,
		Timeout: time.Duration(d.Timeout * float64(time.Second)), Measure: d.Sampling.config(),
		Body: func(context.Context, decl.Setting) (o decl.Outcome, err error) {
			return o, errors.New("it has no interpreter")
		}}
	for _, a := range d.Axes {
		values, err := a.values()
		if err != nil {
			return nil, fmt.Errorf("axis %q: %w", a.Name, err)
		}
		part.Axes = append(part.Axes, decl.Axis{Name: d.columnName(a.Name), Kind: a.Type, Values: values, Words: a.Words})
	}
	for _, e := range d.Envs {
		env := decl.EnvAxis{Name: e.Name}
		for _, v := range e.Values {
			one := point.EnvVar{Name: e.Name}
			if v != nil {
				one.Value, one.Set = *v, true
			}
			env.Values = append(env.Values, one)
		}
		part.Envs = append(part.Envs, env)
	}
	if d.Wheres > 0 {
		part.Drops = []decl.Drop{func(at bench.Point) error { return d.keep(ctx, p, at.Without(bench.BackendName)) }}
	}
	b := &bench.Bench{Name: d.Name, Help: d.Help, Doc: d.Doc, Backends: d.Backends, Parts: []*decl.Part{part}}
	for _, o := range d.Options {
		v, err := point.Parse(o.Type, o.Default)
		if err != nil {
			return nil, fmt.Errorf("option %q: default: %w", o.Name, err)
		}
		b.Options = append(b.Options, decl.Option{Name: o.Name, Kind: o.Type, Default: v, Help: o.Help,
			Choices: o.Choices})
	}
	return b, b.Validate()
}

func (a axis) values() (values []bench.Value, err error) {
	if a.Spec != "" {
		return point.ParseSpec(a.Type, a.Spec)
	}
	for _, text := range a.Values {
		v, err := point.Parse(a.Type, text)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// keep calls the file's own predicates for a point.
func (d declared) keep(ctx context.Context, p *program, at bench.Point) error {
	r, err := p.ask(ctx, "where", request{Bench: d.Name, Point: d.coordinates(at)}, nil)
	if err == nil && r.Dropped != "" {
		err = errors.New(r.Dropped)
	}
	return err
}

// config returns the default configuration with the file's values applied.
func (s sampling) config() bench.Config {
	c := bench.DefaultMeasure()
	c.Cadence = cmp.Or(s.Cadence, c.Cadence)
	if s.Noise != nil {
		c.Stop.RelNoise = *s.Noise
	}
	c.Stop.MinTime, c.Stop.MaxTime = measure.Bounds(0, time.Duration(s.Seconds*float64(time.Second)), c.Stop.MinTime,
		c.Stop.MaxTime)
	c.Stop.MinSamples, c.Stop.MaxSamples = measure.Bounds(s.MinSamples, s.MaxSamples, c.Stop.MinSamples, c.Stop.MaxSamples)
	if s.Repeat > 0 {
		c.Stop, c.Warmup = fixedCount(s.Repeat), fixedWarmup(s.Warmup)
	}
	return c
}

// fixedCount is the rule that takes exactly n samples.
func fixedCount(n int) measure.Stop {
	return measure.Stop{MinSamples: n, MaxSamples: n, MaxTime: measure.NoTimeLimit}
}

// fixedWarmup makes exactly n calls, at least one, whatever their time.
func fixedWarmup(n int) measure.Warmup {
	return measure.Warmup{MinCalls: max(1, n), MaxCalls: max(1, n), MaxTime: 24 * time.Hour}
}
