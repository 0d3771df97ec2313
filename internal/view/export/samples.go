package export

import (
	"bufio"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// SampleFormats returns the formats that WriteSamples accepts.
func SampleFormats() []string { return []string{"csv", "npy"} }

// sample is one line: the time of one call on one rank, or the values that a program printed
// together. row is the index of its row in WriteSamples, the same as in --format csv.
type sample struct {
	row, trial, iteration int
	rank                  float64 // NaN if the sample is for all ranks
	launch                float64 // launch within the trial, from 0; NaN if there is only one
	us                    float64
	others                map[string]float64 // metrics besides time_us
}

// sampleColumns are the first columns of both formats. csv has the row's key before them. Rows
// of programs add the launch, and each further metric has a column.
var sampleColumns = []string{"row", "trial", "iteration", "rank", headline}

// samples holds the samples of all rows.
type samples struct {
	all      []sample
	programs bool     // some rows are of programs
	metrics  []string // besides time_us

	file    string                            // the last file of a program; rows of a launch share one
	printed map[string]map[string][][]float64 // its values by row key, metric, launch and sample
}

// WriteSamples writes the raw samples of the rows from the RUN folder dir: as csv, one sample
// per line with the key of its row, or as a two-dimensional NumPy array of float64 with one
// sample per row.
func WriteSamples(w io.Writer, format, dir string, rows dataset.Set) error {
	var s samples
	keys := make([]string, len(rows))
	for i := range rows {
		keys[i] = csvCell(rows[i].Key)
		if err := s.add(dir, i, rows[i]); err != nil {
			return err
		}
		for _, metric := range slices.Sorted(maps.Keys(rows[i].Raws)) {
			s.metrics = append(s.metrics, metric)
			if err := s.addTimed(dir, i, rows[i], metric, rows[i].Raws[metric]); err != nil {
				return err
			}
		}
	}
	slices.Sort(s.metrics)
	s.metrics = slices.Compact(s.metrics)
	switch format {
	case "csv":
		return s.writeCSV(w, keys)
	case "npy":
		return s.writeNPY(w)
	}
	return suggest.Unknown("format of samples", format, SampleFormats())
}

// add adds the samples of a row. If a program printed only one sample, the row's metrics have it.
func (s *samples) add(dir string, i int, r *journal.Row) error {
	switch {
	case r.Raw == "" && r.Status == journal.OK && r.Clock == "program" && r.Samples == 1:
		one := map[string][][]float64{}
		for name, v := range r.Metrics {
			one[name] = [][]float64{{v}}
		}
		s.addPrinted(i, r, one)
	case r.Raw == "":
	case !strings.HasSuffix(r.Raw, ".json"):
		return s.addTimed(dir, i, r, headline, r.Raw)
	default:
		if err := s.read(dir, r.Raw); err != nil {
			return err
		}
		s.addPrinted(i, r, s.printed[r.Key])
	}
	return nil
}

// read reads the printed values of a program. It does nothing if the last call read the same file.
func (s *samples) read(dir, file string) error {
	if file == s.file {
		return nil
	}
	raw, err := journal.ReadRaw(dir, file)
	if err != nil {
		return err
	}
	s.file, s.printed = file, nil
	if err := json.Unmarshal(raw, &s.printed); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// addTimed adds the samples of a metric that all ranks timed.
func (s *samples) addTimed(dir string, i int, r *journal.Row, metric, file string) error {
	m, err := readMatrix(dir, file)
	if err != nil {
		return err
	}
	for k := range m.Iterations() {
		for rank, ps := range m.Row(k) {
			one := sample{i, r.Trial, k, float64(rank), math.NaN(), float64(ps) / 1e6, nil}
			if metric != headline {
				one.us, one.others = math.NaN(), map[string]float64{metric: one.us}
			}
			s.all = append(s.all, one)
		}
	}
	return nil
}

// readMatrix reads the samples that ranks have timed.
func readMatrix(dir, file string) (m measure.Matrix, err error) {
	raw, err := journal.ReadRaw(dir, file)
	if err != nil {
		return m, err
	}
	if err := m.UnmarshalBinary(raw); err != nil {
		return m, fmt.Errorf("samples/%s: %w", file, err)
	}
	return m, nil
}

// addPrinted adds the values that a program printed, by metric and launch. The k-th values of
// all metrics in a launch are one sample.
func (s *samples) addPrinted(i int, r *journal.Row, byMetric map[string][][]float64) {
	s.programs = true
	launches := 0
	for name, l := range byMetric {
		launches = max(launches, len(l))
		if name != headline {
			s.metrics = append(s.metrics, name)
		}
	}
	iteration := 0
	for launch := range launches {
		longest := 0
		for _, l := range byMetric {
			if launch < len(l) {
				longest = max(longest, len(l[launch]))
			}
		}
		for k := range longest {
			one := sample{i, r.Trial, iteration, math.NaN(), float64(launch), math.NaN(), map[string]float64{}}
			for name, l := range byMetric {
				switch {
				case launch >= len(l) || k >= len(l[launch]):
				case name == headline:
					one.us = l[launch][k]
				default:
					one.others[name] = l[launch][k]
				}
			}
			s.all = append(s.all, one)
			iteration++
		}
	}
}

// columns returns the names of the values in a line.
func (s *samples) columns() []string {
	if !s.programs {
		return slices.Concat(sampleColumns, s.metrics)
	}
	return slices.Concat(sampleColumns, []string{"launch"}, s.metrics)
}

// values returns the numbers of a line, NaN for unknown ones.
func (s *samples) values(one sample) []float64 {
	line := []float64{float64(one.row), float64(one.trial), float64(one.iteration), one.rank, one.us}
	if s.programs {
		line = append(line, one.launch)
	}
	for _, name := range s.metrics {
		v, ok := one.others[name]
		if !ok {
			v = math.NaN()
		}
		line = append(line, v)
	}
	return line
}

func (s *samples) writeCSV(w io.Writer, keys []string) error {
	out := csv.NewWriter(w)
	out.Write(append([]string{"key"}, lists.Map(s.columns(), csvCell)...)) // Error reports a failed write
	for _, one := range s.all {
		line := []string{keys[one.row]}
		for _, v := range s.values(one) {
			text := ""
			if !math.IsNaN(v) {
				text = exact(v)
			}
			line = append(line, text)
		}
		out.Write(line)
	}
	out.Flush()
	return out.Error()
}

// writeNPY writes NumPy's format 1.0: a magic string, the length of the header, the header
// padded so that the numbers start at a multiple of 64 bytes, and the numbers.
func (s *samples) writeNPY(w io.Writer) error {
	const before, align = 10, 64
	header := fmt.Sprintf("{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }", len(s.all), len(s.columns()))
	padding := align - (before+len(header)+1)%align
	header += strings.Repeat(" ", padding%align) + "\n"
	b := bufio.NewWriter(w)
	b.WriteString("\x93NUMPY\x01\x00") // Flush reports a failed write
	b.Write(binary.LittleEndian.AppendUint16(nil, uint16(len(header))))
	b.WriteString(header)
	for _, one := range s.all {
		for _, v := range s.values(one) {
			b.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)))
		}
	}
	return b.Flush()
}
