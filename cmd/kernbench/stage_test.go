//go:build !race

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// stage makes a folder with everything that documented commands refer to: the examples, sweep files, machines, results
// of other tools, and folders with two runs that set a variable.
func stage(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"examples", "docs", "peers"} {
		must.Do(t, os.Symlink(must.Get(filepath.Abs("../../"+name))(t), filepath.Join(dir, name)))
	}
	compile := exec.Command("cc", "-O2", "-o", filepath.Join(dir, "copy"), "examples/python/copy.c")
	compile.Dir = dir
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	stageSweeps(t, dir)
	for range 2 {
		stageRun(t, dir, "--bench memory --size 16K,64K --op copy --ranks 1,2 --env NCCL_MIN_CTAS=4")
	}
	stageRun(t, dir, "--bench solve-scaling --ranks 1 --dof-per-rank 500 --repeat 1 --remeasure 0")
	stageRun(t, dir, "--bench collectives --ranks 2 --op allreduce --algorithm ring,two-stage --size 1K:8K:x2 "+
		"--max-time 5ms --out out/cpu")
	if code, out := invoke(t, dir, "kernbench", "baseline", "save", "out/memory@-1"); code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	for copied, of := range map[string][]string{
		"out/memory":                   {"before", "after", "out/a", "out/b", "out/python_copy", "sim", "cpu", "gpu", "RUN", "FOLDER"},
		"docs/results/h200/overlap":    {"gemm-sim", "gemm-cpu", "gemm-gpu"},
		"docs/results/h200/eval-small": {"out/allreduce-eval", "out/nccl"},
	} {
		for _, name := range of {
			must.Do(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(dir, copied))))
		}
	}
	for name, stored := range map[string]string{"out/omp": "omp", "planted": "planted", "smoke": "planted",
		"bandwidth": "bandwidth"} {
		must.Do(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join("testdata/outputs", stored))))
	}
	return dir
}

// stageRun makes a run in the folder.
func stageRun(t *testing.T, dir, args string) {
	t.Helper()
	if code, out := invoke(t, dir, words("kernbench run -q "+args)...); code != 0 {
		t.Fatalf("%s: exit code %d: %s", args, code, out)
	}
}

// stageSweeps writes the files that documented commands read.
func stageSweeps(t *testing.T, dir string) {
	t.Helper()
	write := func(name, text string) { must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	const sweep = "name: sweep\ncommand: [echo, time=1us bw=1]\nranks: [2]\nenv: {A: [1, 2]}\nmetrics: {time_us: " +
		"{regex: 'time=([0-9.]+)us'}, busbw: {regex: 'bw=([0-9.]+)'}}\n"
	for _, text := range []string{strings.Replace(sweep, "1us", "2us", 1), sweep} { // out/sweep has two builds
		write("sweep.yaml", text)
		stageRun(t, dir, "-f sweep.yaml --remeasure 0 --trials 1")
	}
	const short = "name: short\ncommand: [echo, time=1us]\nmetrics: {time_us: {regex: 'time=([0-9.]+)us'}}\n"
	write("million.yaml", short)
	for _, side := range []string{"old", "new"} { // for ab
		must.Do(t, os.Mkdir(filepath.Join(dir, side), 0o700))
		write(side+".yaml", short)
		must.Do(t, os.WriteFile(filepath.Join(dir, side, "prog"), []byte("#!/bin/sh\n"), 0o700))
	}
	machine := string(must.Get(os.ReadFile("../../internal/accel/topo/topology.yaml"))(t))
	write("my.yaml", machine)
	write("faster-links.yaml", strings.Replace(machine, "bw_gbs: 512", "bw_gbs: 1024", 1))
	must.Do(t, os.MkdirAll(filepath.Join(dir, "out/collectives"), 0o700))
	write("out/collectives/tuning.json", string(must.Get(os.ReadFile("../../internal/comm/tuning/tuning.json"))(t)))
	for _, secret := range []string{".kernbench-secret", ".kernbench-token"} {
		write(secret, "0123456789abcdef0123456789abcdef\n")
	}
	write("mine.yaml", string(must.Get(os.ReadFile("../../internal/result/predict/clusters/h100.yaml"))(t)))
	write("my-ccl.yaml", string(must.Get(os.ReadFile("../../internal/accel/ccl/ccl.yaml"))(t)))
	report := "../../examples/published-report/"
	write("published.csv", string(must.Get(os.ReadFile(report+"times.csv"))(t)))
	write("claims.yaml", string(must.Get(os.ReadFile(report+"claims.yaml"))(t)))
	_, table := invoke(t, dir, words("kernbench run -q --bench collectives --backend flat --ranks 2 --op allreduce "+
		"--size 1K,2K --format nccl-tests")...)
	write("all_reduce.txt", table)
	write("osu_allreduce.txt", "# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n"+
		"4                       1.50\n8                       1.52\n")
	write("bench_all_reduce.py", "import iris.bench as bench\n\n@bench.register\n@bench.axis(\"num_ranks\", [1])\n"+
		"@bench.axis(\"M\", [1024])\n@bench.axis(\"dtype\", [\"fp16\", \"fp32\"])\n"+
		"def bench_all_reduce(state, ctx):\n    state.exec(lambda: None)\n")
}
