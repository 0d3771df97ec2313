package milestone1h

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// sipsAxis says how many SIPs there are and who is whose neighbour: a kind, of the size that the
// topology file has, or a size and a kind, 4x4:torus.
const sipsAxis = "sips"

// shortKinds are the kinds as they may be written after a size.
var shortKinds = map[string]topo.Kind{"ring": topo.Ring, "torus": topo.Torus, "mesh": topo.Mesh,
	string(topo.Ring): topo.Ring, string(topo.Torus): topo.Torus, string(topo.Mesh): topo.Mesh}

// publishedSIPs are those of the evaluation where no file says otherwise.
var publishedSIPs = map[topo.Kind]topo.Grid{topo.Ring: {W: 6, H: 1}, topo.Torus: {W: 2, H: 3}, topo.Mesh: {W: 2, H: 3}}

// withSIPs is the machine with the SIPs that a value of the axis names. A kind alone is as large as
// the file says, in the file's grid if it has one; the built-in machine's is as published.
func withSIPs(t *topo.Topology, builtIn bool, value string) (*topo.Topology, error) {
	size, word, sized := strings.Cut(value, ":")
	if !sized {
		size, word = "", value
	}
	kind, known := shortKinds[word]
	if !known {
		return nil, fmt.Errorf("SIPs %q: %w; a size stands before the kind, as in 4x4:torus", value, bench.Unknown("SIP topology", word, topo.Kinds()))
	}
	if sized {
		g, err := gridOf(size, kind)
		if err != nil {
			return nil, fmt.Errorf("SIPs %q: %w", value, err)
		}
		return t.WithSIPs(kind, g.W, g.H)
	}
	g := publishedSIPs[kind]
	if !builtIn {
		g = fileGrid(t.SIPs, kind)
	}
	return t.WithSIPs(kind, g.W, g.H)
}

// gridOf reads a size: 4x4, or a number for a ring.
func gridOf(size string, kind topo.Kind) (topo.Grid, error) {
	g := topo.Grid{H: 1}
	w, h, two := strings.Cut(size, "x")
	var err error
	if g.W, err = strconv.Atoi(w); err == nil && two {
		g.H, err = strconv.Atoi(h)
	}
	if err != nil || !two && kind != topo.Ring {
		return g, fmt.Errorf("want WIDTHxHEIGHT:torus, WIDTHxHEIGHT:mesh or COUNT:ring")
	}
	return g, nil
}

// fileGrid arranges the SIPs of a file as another kind.
func fileGrid(s topo.SIPs, kind topo.Kind) topo.Grid {
	if kind == topo.Ring {
		return topo.Grid{W: s.Count, H: 1}
	}
	if s.Kind != topo.Ring {
		return s.Grid
	}
	w := 1 // the squarest that has as many
	for i := 1; i*i <= s.Count; i++ {
		if s.Count%i == 0 {
			w = i
		}
	}
	return topo.Grid{W: w, H: s.Count / w}
}

// mistake refuses files that cannot be read and SIPs that cannot be built, before anything runs.
func mistake(p, options bench.Point) error {
	text := func(from bench.Point, name string) string {
		v, _ := from.Get(name)
		return v.String()
	}
	t, _, err := accel.Load(text(options, "topology"), text(options, "ccl"))
	if err != nil {
		return err
	}
	if file := text(options, "trace"); file != "" {
		if _, err := os.Stat(filepath.Dir(file)); err != nil {
			return fmt.Errorf("--trace %s: %w", file, err)
		}
	}
	if sips, has := p.Get(sipsAxis); has {
		_, err = withSIPs(t, text(options, "topology") == "", sips.String())
	}
	return err
}

// The details of a row that say what it was simulated on.
const (
	topologyDetail = "topology"
	hashDetail     = "topology_sha256"
	fabricDetail   = "fabric"
	kindDetail     = "sip_topology" // who is whose neighbour
)

// files reads the machine that the options name, and notes it in the row.
func files(s *bench.State) (*topo.Topology, *ccl.Config, error) {
	path := s.Str("topology")
	t, cfg, err := accel.Load(path, s.Str("ccl"))
	if err != nil {
		return nil, nil, err
	}
	if f := s.Str("fabric"); f != asTopology {
		t.Fabric = topo.Fabric(f)
	}
	name, data := "built-in", topo.DefaultFile()
	if path != "" {
		name = filepath.Base(path)
		if data, err = os.ReadFile(path); err != nil {
			return nil, nil, fmt.Errorf("reading a topology: %w", err)
		}
	}
	s.Detail(topologyDetail, name)
	s.Detail(hashDetail, fmt.Sprintf("%x", sha256.Sum256(data)))
	s.Detail(fabricDetail, string(t.Fabric))
	return t, cfg, nil
}

// machineColumns end the tables: what each row was simulated on.
var machineColumns = []string{"fabric", "topology", "topology_sha256"}

func machineCells(r *journal.Row) []string {
	return []string{r.Details[fabricDetail], r.Details[topologyDetail], r.Details[hashDetail]}
}

// machines says in words what the rows were simulated on.
func machines(rows []journal.Row) string {
	var found []string
	for i := range rows {
		d := rows[i].Details
		if d[hashDetail] == "" {
			continue
		}
		line := fmt.Sprintf("Simulated on topology %s (sha256 %.12s), fabric %s.", d[topologyDetail], d[hashDetail], d[fabricDetail])
		if !slices.Contains(found, line) {
			found = append(found, line)
		}
	}
	return strings.Join(found, " ")
}

// withMachine puts that under every figure.
func withMachine(figs []figure.Figure, rows []journal.Row) []figure.Figure {
	for i := range figs {
		figs[i].AddCaption(machines(rows))
	}
	return figs
}

// traceOption is where to write what happened at each point.
func traceOption() bench.Clause {
	return bench.Option("trace", bench.KindString, "", "write what happened for Perfetto: FILE.json becomes FILE-POINT.json for each point")
}

// writeTrace writes the trace of a point, if one is wanted.
func writeTrace(s *bench.State, r *sim.Result) error {
	file := s.Str("trace")
	if file == "" {
		return nil
	}
	ext := filepath.Ext(file)
	name := strings.TrimSuffix(file, ext)
	for _, axis := range []string{"algorithm", sipsAxis, "buffer_kind", "n_elem", "shapes", "variant", "scaling_shape", "split", "cubes_x_pes"} {
		if v, has := s.Point().Get(axis); has {
			name += "-" + strings.ReplaceAll(v.String(), ":", "_")
		}
	}
	out, err := os.Create(name + ext)
	if err != nil {
		return fmt.Errorf("--trace: %w", err)
	}
	if err := errors.Join(accel.WriteTrace(out, r), out.Close()); err != nil {
		return fmt.Errorf("--trace %s: %w", name+ext, err)
	}
	return nil
}
