package export

import (
	"bufio"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// SampleFormats are the words WriteSamples accepts.
func SampleFormats() []string { return []string{"csv", "npy"} }

// sample is one: the time of one call on one rank. Row is the place of its row among
// those that were given, which is their order in --format csv.
type sample struct {
	row, trial, iteration, rank int
	us                          float64
}

// sampleColumns are the columns of both formats; an array has no place for the key.
var sampleColumns = []string{"row", "trial", "iteration", "rank", "time_us"}

// WriteSamples writes every raw sample of the rows that have any, from the RUN folder
// dir: as csv, one a line with the key of its row, or as a two-dimensional array of NumPy
// (float64, one sample a line).
func WriteSamples(w io.Writer, format, dir string, rows []journal.Row) error {
	var all []sample
	keys := make([]string, len(rows))
	for i := range rows {
		r := &rows[i]
		keys[i] = texttab.Plain(r.Key)
		if r.Raw == "" {
			continue
		}
		raw, err := journal.ReadRaw(dir, r.Raw)
		if err != nil {
			return err
		}
		var m measure.Matrix
		if err := m.UnmarshalBinary(raw); err != nil {
			return fmt.Errorf("%s: %w", r.Raw, err)
		}
		for k := range m.Iterations() {
			for rank, ps := range m.Row(k) {
				all = append(all, sample{i, r.Trial, k, rank, float64(ps) / 1e6})
			}
		}
	}
	switch format {
	case "csv":
		return writeSamplesCSV(w, all, keys)
	case "npy":
		return writeSamplesNPY(w, all)
	}
	return suggest.Unknown("format of samples", format, SampleFormats())
}

func writeSamplesCSV(w io.Writer, all []sample, keys []string) error {
	out := csv.NewWriter(w)
	out.Write(append([]string{"key"}, sampleColumns...)) // Flush tells of an error
	for _, s := range all {
		out.Write([]string{keys[s.row], strconv.Itoa(s.row), strconv.Itoa(s.trial), strconv.Itoa(s.iteration), strconv.Itoa(s.rank), exact(s.us)})
	}
	out.Flush()
	return out.Error()
}

// writeSamplesNPY writes version 1.0 of NumPy's format: a magic word, the length of a
// header that is padded to a multiple of 64 bytes, the header, the numbers.
func writeSamplesNPY(w io.Writer, all []sample) error {
	const before, align = 10, 64
	header := fmt.Sprintf("{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }", len(all), len(sampleColumns))
	padding := align - (before+len(header)+1)%align
	header += strings.Repeat(" ", padding%align) + "\n"
	b := bufio.NewWriter(w)
	b.WriteString("\x93NUMPY\x01\x00") // Flush tells of an error
	b.Write(binary.LittleEndian.AppendUint16(nil, uint16(len(header))))
	b.WriteString(header)
	for _, s := range all {
		for _, v := range []float64{float64(s.row), float64(s.trial), float64(s.iteration), float64(s.rank), s.us} {
			b.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)))
		}
	}
	return b.Flush()
}
