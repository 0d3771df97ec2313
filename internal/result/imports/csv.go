package imports

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func init() {
	Formats.Register(Format{Name: "csv", Help: "a CSV file with a header; 'kernbench docs models' lists the columns",
		Read:    readCSV,
		Example: "published.csv --claims claims.yaml --out out/published"})
}

// csvColumns maps the names in the header of a CSV file to functions that read a cell. The file must
// have a size and one column of times, whose name contains the unit. A row without a time must have a
// status that explains it. axis.NAME is an additional coordinate, and metric.NAME an additional metric.
// Lines that start with # are comments.
var csvColumns = map[string]func(r *Record, text string) error{
	"op":        func(r *Record, text string) (err error) { r.Op, err = opGiven(text); return err },
	"algorithm": func(r *Record, text string) error { r.Algorithm = text; return nil },
	"dtype":     func(r *Record, text string) error { r.DType = typeNamed(text); return nil },
	"reduction": func(r *Record, text string) error { r.Reduction = text; return nil },
	"num_ranks": csvRanks, "ranks": csvRanks,
	"size":    func(r *Record, text string) (err error) { r.Size, err = unit.ParseBytes(text); return err },
	"inplace": func(r *Record, text string) (err error) { r.InPlace, err = strconv.ParseBool(text); return err },
	"backend": func(r *Record, text string) error { r.Backend = text; return nil },
	"time_us": csvTime(1), "time_ms": csvTime(1e3), "time_s": csvTime(1e6),
	"low_us":  csvNumber(func(r *Record, v float64) error { r.Low = v; return nil }),
	"high_us": csvNumber(func(r *Record, v float64) error { r.High = v; return nil }),
	"samples": csvSamples,
	"algbw":   csvMetric("algbw"),
	"busbw":   csvMetric("busbw"),
	"wrong":   csvMetric("wrong"),
	"utilisation": func(r *Record, text string) error {
		return csvMetric("utilisation")(r, strings.TrimSuffix(text, "%"))
	},

	"utilisation_of": csvDetail("utilisation_of"),
	"status": func(r *Record, text string) error {
		r.Status = journal.Status(text)
		if !slices.Contains(journal.Statuses, r.Status) {
			return errors.New("want ok, failed, timeout, skipped or not-executed")
		}
		return nil
	},
	"reason": func(r *Record, text string) error { r.Reason = text; return nil },
	"kind": func(r *Record, text string) error {
		r.Kind = journal.Kind(text)
		if !slices.Contains([]journal.Kind{journal.Measured, journal.Simulated, journal.Modelled}, r.Kind) {
			return errors.New("want measured, simulated or modelled")
		}
		return nil
	},
	"source": csvDetail("source"), "note": csvDetail("note"), "device": csvDetail("device"),
}

func csvRanks(r *Record, text string) (err error) {
	if r.Ranks, err = strconv.Atoi(text); err == nil && r.Ranks < 1 {
		err = errors.New("want 1 or more")
	}
	return err
}

func csvSamples(r *Record, text string) (err error) {
	if r.Samples, err = strconv.Atoi(text); err == nil && r.Samples < 0 {
		err = errors.New("want 0 or more")
	}
	return err
}

// csvTime returns a function that reads a time. us is its unit in microseconds.
func csvTime(us float64) func(*Record, string) error {
	return csvNumber(func(r *Record, v float64) error {
		if _, twice := r.Metrics["time_us"]; twice {
			return errors.New("the row has two times")
		}
		r.Metrics["time_us"] = v * us
		return nil
	})
}

func csvMetric(name string) func(*Record, string) error {
	return csvNumber(func(r *Record, v float64) error { r.Metrics[name] = v; return nil })
}

func csvDetail(name string) func(*Record, string) error {
	return func(r *Record, text string) error { r.Details[name] = text; return nil }
}

// csvNumber returns a function that parses a number and passes it to use.
func csvNumber(use func(r *Record, v float64) error) func(*Record, string) error {
	return func(r *Record, text string) error {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return errors.New("want a number, 0 or more")
		}
		return use(r, v)
	}
}

// readCSV reads a CSV file whose header names the columns.
func readCSV(text string, g Given) (File, error) {
	var f File
	in := csv.NewReader(strings.NewReader(text))
	in.Comment, in.TrimLeadingSpace = '#', true
	header, err := in.Read()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return f, errors.New("the file is empty, want a header such as algorithm,dtype,num_ranks,size,time_us")
		}
		return f, csvError(err)
	}
	at, _ := in.FieldPos(0)
	if err := csvHeader(header); err != nil {
		return f, LineError(at, "%w", err)
	}
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return f, nil
		}
		if err != nil {
			return f, csvError(err)
		}
		line, _ := in.FieldPos(0)
		r, err := csvRecord(header, fields, g)
		if err != nil {
			return f, LineError(line, "%w", err)
		}
		r.Line = line
		f.Records = append(f.Records, r)
	}
}

// csvError converts an error of encoding/csv to a LineError.
func csvError(err error) error {
	if parse, is := errors.AsType[*csv.ParseError](err); is {
		return LineError(parse.Line, "%w", parse.Err)
	}
	return LineError(1, "%w", err)
}

// ownCoordinates are the coordinates that every record has, so an axis cannot have these names.
var ownCoordinates = []string{"op", "algorithm", "dtype", "reduction", "size", "inplace", "num_ranks", "ranks",
	"backend"}

func csvHeader(names []string) error {
	known := slices.Collect(maps.Keys(csvColumns))
	for i, name := range names {
		_, ok := csvColumns[name]
		_, axis := strings.CutPrefix(name, "axis.")
		_, metric := strings.CutPrefix(name, "metric.")
		_, own, _ := strings.Cut(name, ".")
		_, taken := csvColumns[own]
		switch {
		case slices.Contains(names[:i], name):
			return fmt.Errorf("duplicate column %s", name)
		case name == "ranks" && slices.Contains(names, "num_ranks"):
			return errors.New("the columns ranks and num_ranks mean the same")
		case axis && slices.Contains(ownCoordinates, own) || metric && taken:
			return fmt.Errorf("the column %s: call it %s, or choose another name", name, own)
		case (axis || metric) && own == "":
			return fmt.Errorf("the column %s lacks a name", name)
		case name == "time":
			return errors.New("the column time has no unit: call it time_us, time_ms or time_s")
		case !ok && !axis && !metric:
			return suggest.Unknown("column", name, append(known, "axis.NAME", "metric.NAME"))
		}
	}
	if !slices.Contains(names, "size") {
		return errors.New("missing column size")
	}
	return nil
}

// csvRecord reads one line. Properties that the file does not have come from the user's flags.
func csvRecord(header, fields []string, g Given) (Record, error) {
	r := Record{Status: journal.OK, Kind: journal.Measured, Metrics: map[string]float64{},
		Details: map[string]string{"tool": "csv"}}
	has := map[string]bool{}
	for i, name := range header {
		text := strings.TrimSpace(fields[i])
		if text == "" {
			continue
		}
		has[name] = true
		if axis, is := strings.CutPrefix(name, "axis."); is {
			r.Extra = append(r.Extra, point.Coord{Name: axis, Value: guessValue(text)})
			continue
		}
		read := csvColumns[name]
		if metric, is := strings.CutPrefix(name, "metric."); is {
			read = csvMetric(metric)
		}
		if err := read(&r, text); err != nil {
			return r, fmt.Errorf("%s is %q: %w", name, text, err)
		}
	}
	if err := r.settle(g); err != nil {
		return r, err
	}
	r.Op = cmp.Or(r.Op, "allreduce")
	if r.Reduction == "" && r.Op == "allreduce" {
		r.Reduction = "sum"
	}
	_, timed := r.Metrics["time_us"]
	switch {
	case !has["size"]:
		return r, errors.New("missing size")
	case has["low_us"] && !has["high_us"]:
		return r, errors.New("low_us without high_us: want both ends of the interval or none")
	case has["high_us"] && !has["low_us"]:
		return r, errors.New("high_us without low_us: want both ends of the interval or none")
	case r.Metrics["wrong"] > 0 && r.Status == journal.OK:
		r.Status, r.Reason = journal.Failed, fmt.Sprintf("%.0f wrong elements", r.Metrics["wrong"])
	case r.Status == journal.OK && !timed:
		return r, errors.New("missing time: give a status that says why (failed, skipped, not-executed)")
	case r.Status != journal.OK && r.Reason == "":
		return r, fmt.Errorf("status %s without a reason", r.Status)
	}
	return r, nil
}

// settle completes the properties that the line lacks with the user's flags.
func (r *Record) settle(g Given) error {
	errs := make([]error, 5)
	r.Op, errs[0] = settle("op", r.Op, g.Op)
	r.Ranks, errs[1] = settle("ranks", r.Ranks, g.Ranks)
	r.Algorithm, errs[2] = settle("algorithm", r.Algorithm, g.Algorithm)
	r.DType, errs[3] = settle("dtype", r.DType, g.DType)
	r.Backend, errs[4] = settle("backend", r.Backend, g.Backend)
	return cmp.Or(errs...)
}

// guessValue returns integers as such, so that they sort by value, and other text, such as 007, as strings.
func guessValue(text string) point.Value {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
		return point.IntValue(n)
	}
	return point.StringValue(text)
}
