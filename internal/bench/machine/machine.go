// Package machine handles the machine description of simulated rows: the options that select it, the details of a
// row that record it, and the labels by which figures and tables distinguish several machines. It simulates
// nothing and depends on no bench and no backend.
package machine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
)

// Option is the name of the option for the machine's file, and of the detail that has the file name in a row.
const Option = journal.TopologyDetail

// Arrangement is the name of the option, or axis, for the number and topology of SIPs. It overrides the file.
const Arrangement = "sips"

// More details of a row.
const (
	Grid   = "sip_grid" // width x height
	Hash   = journal.HashDetail
	Fabric = journal.FabricDetail
	Kind   = journal.KindDetail
	Root   = "root" // of the hierarchical all-reduce; also the name of the option
)

// Files declares the option for a file, or for several files to compare.
func Files(def, help string) bench.Clause {
	return bench.Sweepable(bench.FileOption(Option, def, help))
}

// Swept reports whether the value of the option is one of several.
func Swept(v bench.Value) bool {
	_, sha := v.File()
	return sha != "" || v.String() == bench.BuiltIn
}

// Options declares both options, for benches whose backends may be simulated or not.
func Options(files string) []bench.Clause {
	return []bench.Clause{Files("", files), bench.Sweepable(bench.Option(Arrangement, bench.KindString, "",
		"SIPs of a simulated accelerator and how they are connected, or several to compare: 4x4:torus, 8:ring, or mesh "+
			"for the number in the file (default: as in the file)"))}
}

// arrangement returns the arrangement of a point, and the name of the option that it is from: the SIPs of an
// accelerator, or the faults of a network.
func arrangement(p, options bench.Point) (text, option string) {
	if v := point.ValueOf(p, options, Arrangement); v.String() != "" {
		return v.String(), Arrangement
	}
	return faultsOf(p, options)
}

// Note records the machine's file in the row, and returns its path and text. Without a file the path is empty and
// the text is builtIn.
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

// NearbyOn declares the file of the current folder as the default for the backends whose machine is described by
// files.
func NearbyOn(backends []string) (out []bench.Clause) {
	for _, name := range backends {
		if m, ok := dist.As[instrument.MachineReader](name); ok && m.NearbyMachine() != "" {
			out = append(out, bench.On(name, Files(m.NearbyMachine(), "")))
		}
	}
	return out
}

// Refuse rejects files that the backend cannot use before anything runs.
func Refuse(p, options bench.Point) error {
	path := bench.FilePath(p, options, Option)
	arranged, option := arrangement(p, options)
	backend := options.At(bench.BackendName)
	ranks := p.At(bench.RanksAxis)
	m, simulated := dist.As[instrument.MachineReader](backend.String())
	_, swept := p.Get(Option)
	_, breaks := dist.As[instrument.FaultReader](backend.String())
	switch {
	case arranged != "" && simulated && breaks == (option == Arrangement):
		return fmt.Errorf("--%s is not for backend %s", option, backend)
	case simulated && (path != "" || arranged != ""):
		return m.CheckMachine(path, arranged, int(ranks.Int()))
	case simulated:
		return nil
	case path != "" || swept:
		return fmt.Errorf("--%s is for simulated backends, which %s is not", Option, backend)
	case arranged != "":
		return fmt.Errorf("--%s is for simulated backends, which %s is not", option, backend)
	}
	return nil
}

// Ranks returns the number of ranks of a group on the selected machine, or 0 for any number.
func Ranks(p, options bench.Point) int {
	m, ok := dist.As[instrument.MachineReader](options.At(bench.BackendName).String())
	if !ok {
		return 0
	}
	arranged, _ := arrangement(p, options)
	what, err := m.DescribeMachine(bench.FilePath(p, options, Option), arranged)
	if err != nil {
		return 0 // Refuse reports the error
	}
	return what.Ranks
}

// Chosen is the machine of a point.
type Chosen struct {
	File        string // "" means built in
	Arrangement string // or faults; "" means as in the file
	Text        string // short description
}

// Describe returns the selected machine and records it in the row. It returns the zero Chosen if the backend is
// not simulated.
func Describe(s *bench.State) (c Chosen, err error) {
	m, ok := dist.As[instrument.MachineReader](s.Backend())
	if !ok {
		return c, nil
	}
	if c.File, _, err = s.File(Option); err != nil {
		return c, err
	}
	c.Arrangement, _ = arrangement(s.Point(), s.Point())
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

// Names returns a function that says what distinguishes the machine of a row: the coordinates in which the rows differ,
// besides those to ignore. The name is "" if they do not differ.
func Names(rows dataset.Set, ignore ...string) func(*journal.Row) string {
	labels := map[string]string{Root: "root in the {}"}
	for _, kind := range faultOptions() {
		labels[kind[0]] = kind[0] + " {}"
	}
	return views.Words{Labels: labels}.PointNames(rows, "", ignore...)
}

// OnRank0 computes a result on rank 0, which simulates the machine for all ranks, and returns it on all of them.
func OnRank0[T any](ctx context.Context, s *bench.State, compute func() (T, error)) (result T, err error) {
	var mine []byte
	var failed error
	if s.Rank() == 0 {
		if result, failed = compute(); failed == nil {
			mine, failed = json.Marshal(result)
		}
	}
	all, err := s.Exchange(ctx, mine)
	switch {
	case failed != nil || err != nil:
		return result, cmp.Or(failed, err)
	case len(all[0]) == 0:
		return result, errors.New("rank 0 could not simulate")
	}
	return result, json.Unmarshal(all[0], &result)
}

// Product reads the shape of a matrix product, MxKxN; a single number n means n x n x n.
func Product(v bench.Value) (m, k, n int, err error) {
	switch d := v.Dims(); len(d) {
	case 1:
		return int(d[0]), int(d[0]), int(d[0]), nil
	case 3:
		return int(d[0]), int(d[1]), int(d[2]), nil
	}
	return 0, 0, 0, fmt.Errorf("shape %v: want MxKxN, or one number for a cube", v)
}
