package kernbench_test

import (
	"slices"
	"strings"
	"testing"
)

// backendPackages returns the import paths of the backends, which are the imports of dist/all.
func backendPackages(all []source) (paths []string) {
	for _, s := range all {
		if s.pkg == "dist/all" {
			paths = append(paths, s.imports...)
		}
	}
	return paths
}

// singleBackend lists the benches that measure one backend: the simulated accelerator or NCCL.
var singleBackend = []string{"benches/acceltransfers", "benches/accelwhatif", "benches/milestone1h"}

// dependsOnBackend returns how a source depends on one backend, or "" if it does not. The examples are programs of
// users, who choose the backend.
func dependsOnBackend(s source, backends []string) string {
	if within(s.pkg, "dist") || within(s.pkg, "examples") || slices.Contains(singleBackend, s.pkg) {
		return ""
	}
	for _, p := range backends {
		if slices.Contains(s.imports, p) {
			return "imports " + p
		}
	}
	for _, text := range []string{`Backend() == "`, `Backend() != "`, `Backend == "`, `Backend != "`} {
		if strings.Contains(strings.ReplaceAll(s.text, text+`"`, ""), text) { // a comparison with "" is allowed
			return "compares a backend's name"
		}
	}
	return ""
}

// TestNobodyNamesABackend finds code that works for one backend only. Everything that other code may
// need to know about a backend is in its description.
func TestNobodyNamesABackend(t *testing.T) {
	all := sources(t)
	backends := backendPackages(all)
	if !slices.Contains(backends, module+"dist/cpu") {
		t.Fatalf("dist/all imports %v, without dist/cpu", backends)
	}
	for _, s := range all {
		if how := dependsOnBackend(s, backends); how != "" {
			t.Errorf("%s %s: ask dist.Describe or dist.As for its properties", s.file, how)
		}
	}
	for _, wrong := range []source{
		{pkg: "benches/gemm", imports: backends[:1]},
		{pkg: "internal/result/model", text: `if s.Backend == "cpu" {`},
	} {
		if dependsOnBackend(wrong, backends) == "" {
			t.Errorf("%+v was accepted", wrong)
		}
	}
}
