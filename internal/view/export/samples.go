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

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// SampleFormats are the words WriteSamples accepts.
func SampleFormats() []string { return []string{"csv", "npy"} }

// sample is one line: the time of one call on one rank, or what a program printed once. Row is
// the place of its row among those that were given, which is their order in --format csv.
type sample struct {
	row, trial, iteration int
	rank                  float64 // not a number where the sample is of all ranks
	launch                float64 // of the point, from 0; not a number where all samples are of one
	us                    float64
	others                map[string]float64 // metrics besides time_us
}

// sampleColumns are the columns of both formats; an array has no place for the key. Samples of
// programs add the launch, and other metrics have a column each.
var sampleColumns = []string{"row", "trial", "iteration", "rank", headline}

// samples are those of all rows, and the names of the metrics that there are besides time_us.
type samples struct {
	all      []sample
	programs bool
	metrics  []string

	file string // the one read last: rows of one launch share it
	of   map[string]map[string][][]float64
}

// WriteSamples writes every raw sample of the rows that have any, from the RUN folder
// dir: as csv, one a line with the key of its row, or as a two-dimensional array of NumPy
// (float64, one sample a line).
func WriteSamples(w io.Writer, format, dir string, rows []journal.Row) error {
	var s samples
	keys := make([]string, len(rows))
	for i := range rows {
		keys[i] = texttab.Plain(rows[i].Key)
		if err := s.add(dir, i, &rows[i]); err != nil {
			return err
		}
		for _, metric := range slices.Sorted(maps.Keys(rows[i].Raws)) {
			s.metrics = append(s.metrics, metric)
			if err := s.timed(dir, i, &rows[i], metric, rows[i].Raws[metric]); err != nil {
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

// add takes the samples of a row. Of a program that gave one, the row has it all.
func (s *samples) add(dir string, i int, r *journal.Row) error {
	switch {
	case r.Raw == "" && r.Status == journal.OK && r.Clock == "program" && r.Samples == 1:
		one := map[string][][]float64{}
		for name, v := range r.Metrics {
			one[name] = [][]float64{{v}}
		}
		s.printed(i, r, one)
	case r.Raw == "":
	case !strings.HasSuffix(r.Raw, ".json"):
		return s.timed(dir, i, r, headline, r.Raw)
	default:
		if err := s.read(dir, r.Raw); err != nil {
			return err
		}
		s.printed(i, r, s.of[r.Key])
	}
	return nil
}

// read reads what a program printed, unless it is what was read last.
func (s *samples) read(dir, file string) error {
	if file == s.file {
		return nil
	}
	raw, err := journal.ReadRaw(dir, file)
	if err != nil {
		return err
	}
	s.file, s.of = file, nil
	if err := json.Unmarshal(raw, &s.of); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// timed takes the samples of a metric that all ranks timed.
func (s *samples) timed(dir string, i int, r *journal.Row, metric, file string) error {
	raw, err := journal.ReadRaw(dir, file)
	if err != nil {
		return err
	}
	var m measure.Matrix
	if err := m.UnmarshalBinary(raw); err != nil {
		return fmt.Errorf("%s: %w", file, err)
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

// printed takes what a program printed: the k-th values of all metrics in a launch are one sample.
func (s *samples) printed(i int, r *journal.Row, of map[string][][]float64) {
	s.programs = true
	launches := 0
	for name, l := range of {
		launches = max(launches, len(l))
		if name != headline {
			s.metrics = append(s.metrics, name)
		}
	}
	iteration := 0
	for launch := range launches {
		most := 0
		for _, l := range of {
			if launch < len(l) {
				most = max(most, len(l[launch]))
			}
		}
		for k := range most {
			one := sample{i, r.Trial, iteration, math.NaN(), float64(launch), math.NaN(), map[string]float64{}}
			for name, l := range of {
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

// columns are the names of what values gives.
func (s *samples) columns() []string {
	if !s.programs {
		return slices.Concat(sampleColumns, s.metrics)
	}
	return slices.Concat(sampleColumns, []string{"launch"}, s.metrics)
}

// values are the numbers of one line; what is not known is not a number.
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
	out.Write(append([]string{"key"}, s.columns()...)) // Flush tells of an error
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

// writeNPY writes version 1.0 of NumPy's format: a magic word, the length of a
// header that is padded to a multiple of 64 bytes, the header, the numbers.
func (s *samples) writeNPY(w io.Writer) error {
	const before, align = 10, 64
	header := fmt.Sprintf("{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }", len(s.all), len(s.columns()))
	padding := align - (before+len(header)+1)%align
	header += strings.Repeat(" ", padding%align) + "\n"
	b := bufio.NewWriter(w)
	b.WriteString("\x93NUMPY\x01\x00") // Flush tells of an error
	b.Write(binary.LittleEndian.AppendUint16(nil, uint16(len(header))))
	b.WriteString(header)
	for _, one := range s.all {
		for _, v := range s.values(one) {
			b.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)))
		}
	}
	return b.Flush()
}
