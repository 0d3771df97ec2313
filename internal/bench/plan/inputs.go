package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// partInputs computes fingerprints of everything that produces the rows of one part. --resume runs a
// point again if its fingerprint has changed.
type partInputs struct {
	plan              *Plan
	common            journal.Inputs // inputs of every point of the part
	commonFingerprint string
}

// newPartInputs collects the inputs that all points of a part have in common: the build, the version,
// units, files of options, variables that are not swept, and flags that change what is measured.
func (p *Plan) newPartInputs(part *decl.Part, req Request, version string) *partInputs {
	in := journal.Inputs{}
	maps.Copy(in, req.Build)
	if version != "" {
		in["version"] = version
	}
	if c := part.Command; c != nil {
		maps.Copy(in, c.Inputs)
	}
	for name, sum := range p.Inputs {
		if _, own := p.Bench.Inputs[name]; own {
			in["file "+name] = sum
			continue
		}
		// The path is part of the name: rows record the option's value, so another path is another
		// point and not a changed input.
		in[journal.ContentPrefix+"--"+name+" "+p.Options.At(name).String()] = sum
	}
	for _, m := range part.Metrics {
		if m.Unit != "" {
			in["unit "+m.Name] = m.Unit
		}
	}
	swept := envNames([]*decl.Part{part})
	for name, value := range req.Environ {
		if !slices.Contains(swept, name) {
			in["variable "+name] = value
		}
	}
	if req.Bind != "" {
		in["--bind"] = string(req.Bind)
	}
	if req.Threads > 0 {
		in["--threads-per-rank"] = strconv.Itoa(req.Threads)
	}
	in = req.Sampling.keyInputs(declaredMeasure(p.Bench, part), in)
	p.addFingerprint(in)
	return &partInputs{p, in, in.Fingerprint()}
}

// fingerprint returns the fingerprint of a point that refers to the given contents.
func (o *partInputs) fingerprint(contents map[string]string) string {
	if len(contents) == 0 {
		return o.commonFingerprint
	}
	in := maps.Clone(o.common)
	for name, sum := range contents {
		in[journal.ContentPrefix+name] = sum
	}
	return o.plan.addFingerprint(in)
}

// addFingerprint records inputs under their fingerprint and returns it.
func (p *Plan) addFingerprint(in journal.Inputs) string {
	if p.Fingerprints == nil {
		p.Fingerprints = map[string]journal.Inputs{}
	}
	sum := in.Fingerprint()
	p.Fingerprints[sum] = in
	return sum
}

// contents returns the SHA-256 sums of the external data that a point refers to, or nil if there is none.
func (p *Plan) contents(at point.Point) map[string]string {
	if p.Bench.Content == nil {
		return nil
	}
	return p.Bench.Content(at, p.withBackend())
}

// ChangedContents returns the names of the external data that have changed since the task was planned.
func (p *Plan) ChangedContents(t Task) (names []string) {
	planned := p.Fingerprints[t.Inputs]
	for name, sum := range p.contents(t.Point) {
		if planned[journal.ContentPrefix+name] != sum {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Untracked lists the inputs that cannot be fingerprinted, each with the reason. If one of them changes,
// --resume does not notice.
func (p *Plan) Untracked() (list []string) {
	if p.Bench.Tracked == nil {
		return nil
	}
	list = slices.Clone(p.Bench.Tracked.Unknown)
	for _, part := range p.Bench.Parts {
		c := part.Command
		if c == nil || len(c.Argv) == 0 {
			continue
		}
		program := "program " + c.Argv[0] + ": "
		if len(c.Setup) > 0 {
			list = append(list, program+"setup may build it: name its sources under files")
		}
		if slices.Contains(p.Envs, "PATH") && !strings.Contains(c.Argv[0], "/") {
			list = append(list, program+"it depends on PATH, which is swept")
		}
	}
	return list
}
