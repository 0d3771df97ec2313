package milestone1h

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/bench/machine"
)

// sipsAxis is the axis of SIP topologies. A value is a kind, with the size of the topology file, or a size and a
// kind, 4x4:torus.
const sipsAxis = machine.Arrangement

// publishedSIPs holds the sizes of the published evaluation, which apply without a topology file.
var publishedSIPs = map[topo.Kind]topo.Grid{topo.Ring: {W: 6, H: 1}, topo.Torus: {W: 2, H: 3}, topo.Mesh: {W: 2, H: 3}}

// withSIPs returns the machine with the SIP topology of an axis value. A kind alone has the number of SIPs of the
// file, and its grid if possible; the built-in machine then has the published size.
func withSIPs(t *topo.Topology, builtIn bool, value string) (*topo.Topology, error) {
	if kind, g, err := topo.ParseArrangement(value); err == nil && builtIn && g == (topo.Grid{}) {
		return t.WithSIPs(kind, publishedSIPs[kind].W, publishedSIPs[kind].H)
	}
	return t.Arrange(value)
}

// validate rejects unreadable files and impossible SIP topologies before anything runs.
func validate(p, options bench.Point) error {
	file := bench.FilePath(p, options, machine.Option)
	t, _, err := accel.Load(file, options.At("ccl").String())
	if err != nil {
		return err
	}
	if file := options.At("trace").String(); file != "" {
		if _, err := os.Stat(filepath.Dir(file)); err != nil {
			return fmt.Errorf("--trace %s: %w", file, err)
		}
	}
	if sips, has := p.Get(sipsAxis); has {
		_, err = withSIPs(t, file == "", sips.String())
	}
	return err
}

// traceOption declares --trace.
var traceOption = bench.OutputFile("trace",
	"write a trace of each point for Perfetto: FILE.json becomes FILE-POINT.json")

// writeTrace writes the trace of a point if --trace is set.
func writeTrace(s *bench.State, r *sim.Result) error {
	file := s.Str("trace")
	if file == "" {
		return nil
	}
	ext := filepath.Ext(file)
	name := strings.TrimSuffix(file, ext)
	if v := s.Value(machine.Option); machine.Swept(v) {
		name += "-" + filepath.Base(v.String())
	}
	for _, axis := range []string{"algorithm", sipsAxis, "buffer_kind", "n_elem", "shapes", "variant", "scaling_shape",
		"split", "cubes_x_pes"} {
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
