package imports

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/result/journal"
)

// Text in the form that src/util.cu of nccl-tests writes: everything on one line, the root
// padded to its column, and with MPI one device per process.
const ncclJSONFull = `{"version":2,"start_time":"2026-01-02 03:04:05","args":["./build\/all_reduce_perf","-J","r.json"],"env":["HOME=\/root"],"nccl_version":23004,` +
	`"config":{"nthreads":1,"ngpus":2,"minimum_bytes":8,"maximum_bytes":268435456,"step_factor":33554432,"warmup_iters":1,"iterations":20,"aggregated_iterations":1,` +
	`"validation":1,"graph":0,"blocking_collectives":"false","per_iter_timing":"false","parallel_init":"false",` +
	`"devices":[{"rank":0,"group":0,"pid":17,"hostname":"gpu-1","device":0,"device_hex":"0009:01:00","device_info":"NVIDIA H100 80GB HBM3"},` +
	`{"rank":2,"group":0,"pid":18,"hostname":"gpu-1","device":2,"device_hex":"0029:01:00","device_info":"NVIDIA H100 80GB HBM3"}]},` +
	`"results":[{"size":8,"count":2,"type":"float","redop":"sum","root":"    -1","out_of_place":{"time":17.010000,"alg_bw":0.000470,"bus_bw":0.000705,"nwrong":0.000000},` +
	`"in_place":{"time":17.050000,"alg_bw":0.000469,"bus_bw":0.000704,"nwrong":null},"actual_iterations":20,"experiment_name":"x"},` +
	`{"size":268435456,"count":67108864,"type":"float","redop":"sum","root":"    -1","out_of_place":null,` +
	`"in_place":{"time":1180.000000,"alg_bw":227.487675,"bus_bw":341.231512,"nwrong":3.000000},"actual_iterations":20,"experiment_name":"x"}],` +
	`"out_of_bounds":{"count":3,"okay":"false"},"average_bus_bandwidth":{"bandwidth":113.744307,"okay":"unchecked"},"errors":[],"end_time":"2026-01-02 03:05:05"}`

func TestNCCLJSON(t *testing.T) {
	f := read(t, "nccl-tests", ncclJSONFull, Given{})
	details := map[string]string{"tool": "nccl-tests", "device": "NVIDIA H100 80GB HBM3", "time": ncclMean}
	base := Record{Line: 1, Op: "allreduce", Algorithm: "nccl", Backend: "nccl", DType: "f32", Reduction: "sum", Ranks: 4,
		Host: "gpu-1", Samples: 20,
		Kind: journal.Measured, Details: details, Status: journal.OK}
	out, in, wrong := base, base, base
	out.Size, out.Metrics = 8, map[string]float64{"time_us": 17.01, "algbw": 0.00047, "busbw": 0.000705, "wrong": 0}
	in.Size, in.InPlace, in.Metrics = 8, true, map[string]float64{"time_us": 17.05, "algbw": 0.000469, "busbw": 0.000704}
	wrong.Size, wrong.InPlace, wrong.Metrics = 268435456, true,
		map[string]float64{"time_us": 1180, "algbw": 227.487675, "busbw": 341.231512, "wrong": 3}
	out.Count, in.Count, wrong.Count = "2", "2", "67108864"
	wrong.Status, wrong.Reason = journal.Failed, "3 wrong elements"
	if diff := cmp.Diff(f.Records, []Record{out, in, wrong}); diff != "" {
		t.Error(diff)
	}
	if len(f.Notes) > 0 {
		t.Errorf("notes %q", f.Notes)
	}
}

// TestNCCLJSONFaults checks the errors of broken JSON and of contradicting flags.
func TestNCCLJSONFaults(t *testing.T) {
	for _, c := range []struct {
		text  string
		given Given
		want  string
	}{
		{ncclJSONFull[:len(ncclJSONFull)-9], Given{}, "file: reading the JSON of nccl-tests: unexpected EOF"},
		{ncclJSONFull + "{}", Given{}, "something follows the object"},
		{"{}", Given{}, "file: this is no JSON of nccl-tests: it has no results"},
		{strings.Replace(ncclJSONFull, `"version":2`, `"version":3`, 1), Given{}, "version 3, want 1 or 2"},
		{strings.Replace(ncclJSONFull, `17.050000`, `"nan"`, 1), Given{}, "file: result 1: time_us is NaN"},
		{strings.Replace(ncclJSONFull, `17.050000`, `"fast"`, 1), Given{}, "cannot unmarshal"},
		{strings.Replace(ncclJSONFull, `"size":268435456,`, ``, 1), Given{}, "file: result 2: it needs a size"},
		{ncclJSONFull, Given{Ranks: 8}, "the file says ranks 4, --ranks says 8"},
		{ncclJSONFull, Given{Op: "allgather"}, "the file says op allreduce, --op says allgather"},
	} {
		if _, err := Read("nccl-tests", "file", c.text, c.given); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
