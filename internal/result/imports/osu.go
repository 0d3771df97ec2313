package imports

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/nccltable"
)

func init() {
	Formats.Register(Format{Name: "osu",
		Help:    "tables of OSU's collective latency tests, which never print the number of ranks",
		Read:    readOSU,
		Example: "osu_allreduce.txt --ranks 8 --out out/osu"})
}

// The output of OSU's collective latency tests:
//
//	# OSU MPI Allreduce Latency Test v7.3
//	# Datatype: MPI_FLOAT.
//	# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
//	4                       1.23              1.11              1.35        1000
//
// Min, Max and Iterations appear only with -f, Validation only with -c. The tool never prints
// the number of ranks.

var (
	osuTitle = regexp.MustCompile(`OSU (\S+) (.+?) Latency Test(?: v(\S+))?`)
	osuType  = regexp.MustCompile(`Datatype: (\w+)`)
	osuSplit = regexp.MustCompile(`\s{2,}`)
	// osuSizes matches the sizes that a command line asks for: -m MAX or -m MIN:MAX.
	osuSizes = regexp.MustCompile(`\bosu_\w+\b.*?(?:-m|--message-size)[ =](?:(\d+):)?(\d+)\b`)
)

// osuTable is the table being read.
type osuTable struct {
	op, dtype, backend, version, memory string
	columns                             []string // names in lower case, without blanks; nil before the header
}

// readOSU reads the tables of a file. Lines outside of tables, such as log messages, are ignored.
func readOSU(text string, g Given) (File, error) {
	text, skipped := nccltable.WithoutLog(text)
	f := File{Notes: lists.NonEmpty(logNote(skipped))}
	var t osuTable
	var err error
	var requested sizeRange
	number, tableAt := 0, 0
	endTable := func() {
		missing := addMissing(f.Records[tableAt:], osuMissing(f.Records[tableAt:], requested), number, f.Failure)
		f.Notes = append(f.Notes, lists.NonEmpty(missingNote(missing))...)
		f.Records = append(f.Records, missing...)
		tableAt = len(f.Records)
	}
	for line := range strings.Lines(text) {
		number++
		plain := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
		if m := osuSizes.FindStringSubmatch(plain); m != nil {
			requested.min, _ = strconv.ParseInt(cmp.Or(m[1], "4"), 10, 64)
			requested.max, _ = strconv.ParseInt(m[2], 10, 64)
		}
		if f.Failure == "" && launcherFailure.MatchString(plain) {
			f.Failure = fmt.Sprintf("line %d: the run ended in a failure (%s)", number, plain)
			f.Notes = append(f.Notes, f.Failure)
		}
		if m := osuTitle.FindStringSubmatch(plain); m != nil {
			endTable()
			if t, err = newOSUTable(m, number); err != nil {
				return f, err
			}
			continue
		}
		if m := osuType.FindStringSubmatch(plain); m != nil {
			t.dtype = typeNamed(m[1])
			continue
		}
		if columns := osuColumns(plain); columns != nil {
			t.columns = columns
			continue
		}
		fields := strings.Fields(plain)
		if t.columns == nil || len(fields) == 0 {
			continue
		}
		if _, err := strconv.ParseFloat(fields[0], 64); err != nil {
			continue // a log line
		}
		r, err := t.record(fields, number)
		if err != nil {
			return f, err
		}
		if r.Op, err = settle("op", r.Op, g.Op); err != nil {
			return f, LineError(number, "%w", err)
		}
		if err := completeOSU(&r, g); err != nil {
			return f, LineError(number, "%w", err)
		}
		f.Records = append(f.Records, r)
	}
	if t.columns == nil {
		return f, errors.New("no table of OSU: no line has Latency(us)")
	}
	endTable()
	return f, nil
}

// osuMissing returns the sizes that a table of OSU should have. The tool doubles the size from
// line to line. It does not print which sizes it was asked for, so without the command line in
// the log only gaps are found. A table with more gaps than lines is an excerpt.
func osuMissing(table []Record, requested sizeRange) []int64 {
	if len(table) == 0 || table[0].Size == 0 {
		return nil
	}
	sizes := slices.Sorted(maps.Keys(sizeSet(table)))
	known := requested.max > 0
	if !known {
		requested.min, requested.max = sizes[0], sizes[len(sizes)-1]
	} else if scale := osuScale(&table[0]); scale > 1 {
		requested.min, requested.max = requested.min*scale, requested.max*scale
	}
	doubles := sizeRange{requested.min, requested.max, 2, true}.list()
	// Any other sequence of sizes was chosen by a file of tuning sizes or by hand.
	if slices.ContainsFunc(sizes, func(size int64) bool { return !slices.Contains(doubles, size) }) ||
		!known && len(doubles) >= 2*len(sizes) {
		return nil
	}
	return doubles
}

func newOSUTable(title []string, line int) (osuTable, error) {
	t := osuTable{backend: "mpi", version: title[3]}
	system, memory, _ := strings.Cut(title[1], "-")
	if system == "NCCL" || system == "xCCL" {
		t.backend = "nccl"
	}
	t.memory = memory
	op, known := opNamed(strings.TrimPrefix(title[2], "MPI "))
	if !known {
		return t, LineError(line, "OSU's %s test is not one of a blocking collective that can be read", title[2])
	}
	t.op = op
	return t, nil
}

// osuColumns returns the columns of a header, or nil if the line is no header.
func osuColumns(line string) []string {
	var columns []string
	latency := false
	for _, name := range osuSplit.Split(line, -1) {
		name = strings.ReplaceAll(strings.ToLower(name), " ", "")
		columns = append(columns, name)
		latency = latency || strings.Contains(name, "latency(")
	}
	if !latency {
		return nil
	}
	return columns
}

// record reads one line of the table. The time is the latency of the slowest rank if the tool
// printed it, and the average otherwise.
func (t *osuTable) record(fields []string, line int) (Record, error) {
	r := Record{Line: line, Op: t.op, DType: t.dtype, Backend: t.backend, Status: journal.OK, Kind: journal.Measured,
		Metrics: map[string]float64{},
		Details: map[string]string{"tool": strings.TrimSpace("OSU micro-benchmarks " + t.version)}}
	if len(fields) != len(t.columns) {
		return r, LineError(line, "the line has %d fields, the header %d: it is cut off or not of this table", len(fields),
			len(t.columns))
	}
	if t.memory != "" {
		r.Extra = point.Point{{Name: "memory", Value: point.StringValue(strings.ToLower(t.memory))}}
	}
	sized := false
	for i, name := range t.columns {
		if name == "validation" {
			if !strings.EqualFold(fields[i], "pass") {
				r.Status, r.Reason = journal.Failed, "OSU's validation: "+fields[i]
			}
			continue
		}
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return r, LineError(line, "%s is %q, want a number", name, fields[i])
		}
		switch name {
		case "size":
			if v != math.Trunc(v) || v > 1<<60 {
				return r, LineError(line, "the size %q is not a number of bytes", fields[i])
			}
			r.Size, sized = int64(v), true
		case "avglatency(us)", "latency(us)":
			r.Metrics["avg_us"] = v
		case "minlatency(us)":
			r.Metrics["min_us"] = v
		case "maxlatency(us)":
			r.Metrics["max_us"] = v
		case "iterations":
			if v != math.Trunc(v) || v > 1<<60 {
				return r, LineError(line, "the iterations %q are not a whole number", fields[i])
			}
			r.Samples = int(v)
		default:
			if !strings.HasSuffix(name, "(us)") {
				return r, LineError(line, "unknown column %q, or its unit is not us", name)
			}
			r.Metrics[strings.TrimSuffix(name, "(us)")+"_us"] = v // percentiles
		}
	}
	if !sized && t.op != "barrier" {
		return r, LineError(line, "missing column Size")
	}
	// kernbench's time is the time of the slowest rank.
	r.Metrics["time_us"], r.Details["time"] = r.Metrics["avg_us"],
		"mean over iterations, averaged over ranks: OSU without -f prints no more"
	if most, has := r.Metrics["max_us"]; has {
		r.Metrics["time_us"], r.Details["time"] = most, "mean over iterations of the slowest rank"
	}
	return r, nil
}

// osuScale returns the number of parts if OSU prints the size of one part.
func osuScale(r *Record) int64 {
	switch r.Op {
	case "allgather", "gather", "scatter", "alltoall":
		return int64(r.Ranks)
	}
	return 1
}

// completeOSU adds what only the user knows, and converts sizes to the convention of nccl-tests: OSU
// prints the size of one rank's part, but nccl-tests prints the size of the whole buffer.
func completeOSU(r *Record, g Given) (err error) {
	if g.Ranks == 0 {
		return errors.New("OSU does not say how many ranks there were: give --ranks")
	}
	r.Ranks = g.Ranks
	if r.Op == "" {
		return errors.New("no title names the operation: give --op")
	}
	scale := osuScale(r)
	if r.Size > math.MaxInt64/scale {
		return fmt.Errorf("%d bytes for each of %d ranks are more than can be counted", r.Size, r.Ranks)
	}
	r.Size *= scale
	if r.DType == "" && (r.Op == "allreduce" || r.Op == "reduce" || r.Op == "reduce_scatter") && g.DType == "" {
		r.DType = "f32" // OSU's default
	}
	if r.DType, err = settle("dtype", r.DType, g.DType); err != nil {
		return err
	}
	r.DType = cmp.Or(r.DType, "u8")
	if r.Op == "allreduce" || r.Op == "reduce" || r.Op == "reduce_scatter" {
		r.Reduction = "sum"
	}
	if r.Backend, err = settle("backend", r.Backend, g.Backend); err != nil {
		return err
	}
	r.Algorithm = cmp.Or(g.Algorithm, r.Backend)
	return nil
}
