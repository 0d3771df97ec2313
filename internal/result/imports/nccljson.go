package imports

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// ncclReport is the JSON object that newer nccl-tests write with -J FILE: the table and its
// preamble, with more digits. The keys are from the tool's writer (src/util.cu). The
// environment in the file is not read.
type ncclReport struct {
	Version int      `json:"version"`
	Args    []string `json:"args"`
	Config  struct {
		Threads    int   `json:"nthreads"`
		GPUs       int   `json:"ngpus"` // per thread
		Iterations int   `json:"iterations"`
		Min        int64 `json:"minimum_bytes"`
		Max        int64 `json:"maximum_bytes"`
		Factor     int64 `json:"step_factor"`
		Devices    []struct {
			Host   string `json:"hostname"`
			Device string `json:"device_info"`
		} `json:"devices"`
	} `json:"config"`
	Results     []ncclResult `json:"results"`
	OutOfBounds struct {
		Count int `json:"count"`
	} `json:"out_of_bounds"`
	Average struct {
		Bandwidth float64 `json:"bandwidth"`
	} `json:"average_bus_bandwidth"`
	Errors []string `json:"errors"`
}

type ncclResult struct {
	Size       *int64     `json:"size"`
	Count      *int64     `json:"count"`
	Type       string     `json:"type"`
	Reduction  string     `json:"redop"`
	Root       string     `json:"root"` // padded with blanks as in the table
	OutOfPlace *ncclTimes `json:"out_of_place"`
	InPlace    *ncclTimes `json:"in_place"`
}

// ncclTimes holds the columns of one place, in place or out of place. A missing number is
// the string "nan".
type ncclTimes struct {
	Time    *ncclNumber `json:"time"`
	CPUTime *ncclNumber `json:"cpu_time"`
	AlgBW   *ncclNumber `json:"alg_bw"`
	BusBW   *ncclNumber `json:"bus_bw"`
	Wrong   *ncclNumber `json:"nwrong"` // null if results were not checked
}

type ncclNumber float64

func (n *ncclNumber) UnmarshalJSON(text []byte) error {
	if string(text) == `"nan"` {
		*n = ncclNumber(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}

// ncclJSON reports whether the text is the JSON output of nccl-tests and not its tables.
func ncclJSON(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), "{") }

// readNCCLJSON reads the JSON output of nccl-tests.
func readNCCLJSON(text string, g Given) (File, error) {
	var f File
	var report ncclReport
	in := json.NewDecoder(strings.NewReader(text))
	if err := in.Decode(&report); err != nil {
		return f, fmt.Errorf("reading the JSON of nccl-tests: %w", err)
	}
	if _, err := in.Token(); err != io.EOF {
		return f, fmt.Errorf("reading the JSON of nccl-tests: something follows the object, which ends at byte %d",
			in.InputOffset())
	}
	if report.Results == nil {
		return f, fmt.Errorf("this is no JSON of nccl-tests: it has no results")
	}
	if report.Version < 1 || report.Version > 2 {
		return f, fmt.Errorf("the JSON of nccl-tests has version %d, want 1 or 2", report.Version)
	}
	c := report.Config
	if limit := 1 << 20; c.Threads < 0 || c.GPUs < 0 || c.Threads > limit || c.GPUs > limit || c.Iterations < 0 {
		return f, fmt.Errorf("the config of nccl-tests' JSON has %d threads, %d GPUs and %d iterations", c.Threads, c.GPUs,
			c.Iterations)
	}
	// A process lists only its first device, but each thread uses several GPUs.
	pre := ncclPreamble{count: len(c.Devices) * c.Threads * c.GPUs, iters: c.Iterations, time: ncclMean}
	if len(c.Devices) > 0 {
		pre.host, pre.device = c.Devices[0].Host, c.Devices[0].Device
	}
	pre.log(strings.Join(report.Args, " "))
	for i, result := range report.Results {
		records, err := result.records()
		if err != nil {
			return f, fmt.Errorf("result %d: %w", i+1, err)
		}
		f.Records = append(f.Records, records...)
	}
	if n := report.OutOfBounds.Count; n > 0 {
		outOfBounds(f.Records, fmt.Sprintf("out_of_bounds has a count of %d", n))
	}
	for _, text := range report.Errors {
		f.Failure = "the tool's last error: " + text
		f.Notes = append(f.Notes, f.Failure)
	}
	notes, err := pre.settle(f.Records, g, 1)
	f.Notes = append(f.Notes, notes...)
	if err == nil {
		pre.failure, pre.line = f.Failure, 1
		if c.Factor > 1 {
			pre.sizes = sizeRange{c.Min, c.Max, c.Factor, true}
		}
		if report.Average.Bandwidth > 0 {
			pre.average = average{1, report.Average.Bandwidth}
		}
		pre.checkTable(&f, 0)
	}
	return f, err
}

// records returns the results of one size, one for each place that was run.
func (r *ncclResult) records() (out []Record, err error) {
	if r.Size == nil || *r.Size < 0 || r.Type == "" {
		return nil, fmt.Errorf("it needs a size in bytes and a type")
	}
	base := ncclBase(1, *r.Size, r.Type, r.Reduction, strings.TrimSpace(r.Root))
	if r.Count != nil {
		base.Count = strconv.FormatInt(*r.Count, 10)
	}
	for _, p := range []struct {
		times   *ncclTimes
		inPlace bool
	}{{r.OutOfPlace, false}, {r.InPlace, true}} {
		if p.times == nil {
			continue
		}
		time := p.times.Time
		if time == nil {
			time = p.times.CPUTime
		}
		metrics := map[string]float64{}
		for _, m := range []struct {
			name  string
			value *ncclNumber
		}{{"time_us", time}, {"algbw", p.times.AlgBW}, {"busbw", p.times.BusBW}, {"wrong", p.times.Wrong}} {
			if m.value == nil {
				continue
			}
			v := float64(*m.value)
			if math.IsNaN(v) || v < 0 {
				return nil, fmt.Errorf("%s is %v, want a number that is not negative", m.name, v)
			}
			metrics[m.name] = v
		}
		if record, ran := base.ncclPlaced(p.inPlace, metrics); ran {
			out = append(out, record)
		}
	}
	return out, nil
}

// ncclBase returns the record of a table line or JSON result without its times.
func ncclBase(line int, size int64, typ, reduction, root string) Record {
	r := Record{Line: line, Size: size, DType: typeNamed(typ), Kind: journal.Measured}
	if reduction != "none" {
		r.Reduction = reduction
	}
	if root, err := strconv.Atoi(root); err == nil && root > 0 {
		r.Extra = point.Point{{Name: "root", Value: point.IntValue(int64(root))}}
	}
	return r
}

// ncclPlaced returns the record of one place, and whether that was run.
func (r Record) ncclPlaced(inPlace bool, metrics map[string]float64) (Record, bool) {
	r.InPlace, r.Status, r.Metrics = inPlace, journal.OK, metrics
	if wrong := metrics["wrong"]; wrong > 0 {
		r.Status, r.Reason = journal.Failed, fmt.Sprintf("%.0f wrong elements", wrong)
		return r, true
	}
	_, timed := metrics["time_us"]
	return r, timed
}
