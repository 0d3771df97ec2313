package kernbench_test

import (
	"slices"
	"strings"
	"testing"
)

// backendPackages are those of backends: one import registers them all, and nobody
// else needs one, because what is to be known of a backend is in its description.
var backendPackages = []string{module + "dist/ahbm", module + "dist/cpu", module + "dist/cuda", module + "dist/flat",
	module + "dist/mpi", module + "dist/nccl"}

// dedicated are the benches that are about one backend: the simulated accelerator, NCCL.
var dedicated = []string{"benches/accelwhatif", "benches/milestone1h", "benches/ncclctasweep"}

// namesBackend says how a source depends on a certain backend, "" if it does not.
func namesBackend(s source) string {
	if within(s.pkg, "dist") || slices.Contains(dedicated, s.pkg) {
		return ""
	}
	for _, p := range backendPackages {
		if slices.Contains(s.imports, p) {
			return "imports " + p
		}
	}
	for _, text := range []string{`Backend() == "`, `Backend() != "`, `Backend == "`, `Backend != "`} {
		if strings.Contains(strings.ReplaceAll(s.text, text+`"`, ""), text) { // "" is none
			return "compares a backend's name"
		}
	}
	return ""
}

func TestNobodyNamesABackend(t *testing.T) {
	for _, s := range sources(t) {
		if how := namesBackend(s); how != "" {
			t.Errorf("%s %s: ask dist.Describe or dist.As what it can do", s.file, how)
		}
	}
	for _, wrong := range []source{
		{pkg: "benches/gemm", imports: backendPackages[:1]},
		{pkg: "internal/result/model", text: `if s.Backend == "cpu" {`},
	} {
		if namesBackend(wrong) == "" {
			t.Errorf("%+v was accepted", wrong)
		}
	}
}
