package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/accel"
)

// Both kernels agree with plain Go to the precision of f16, and print times with units, as
// docs/accelerator-kernels.md shows.
func TestKernels(t *testing.T) {
	doc, err := os.ReadFile("../../docs/accelerator-kernels.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(*accel.System) (string, error){
		"softmax": runSoftmax, "attention": runAttention} {
		line, err := run(accel.New(accel.DefaultTopology(), accel.DefaultConfig()))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`^\w+ of .*: [\d.]+ ns on sip0\.cube\d+\.pe\d: .*compute [\d.]+ ns.*; ` +
			`largest error (\S+)$`).FindStringSubmatch(line)
		if found == nil {
			t.Fatalf("%s: %q", name, line)
		}
		if shown, _, _ := strings.Cut(line, "; largest error"); !strings.Contains(string(doc), "\n"+shown) {
			t.Errorf("docs/accelerator-kernels.md does not show %q", shown)
		}
		if off, err := strconv.ParseFloat(found[1], 64); err != nil || off == 0 || off > 1e-3 {
			t.Errorf("%s: the largest error is %v (%v)", name, off, err)
		}
	}
}

// docs/accelerator-kernels.md shows the kernels as they are.
func TestDocs(t *testing.T) {
	source, err := os.ReadFile("kernels.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../docs/accelerator-kernels.md")
	if err != nil {
		t.Fatal(err)
	}
	_, kernels, _ := strings.Cut(string(source), "// softmax replaces")
	for _, kernel := range strings.SplitAfter("// softmax replaces"+kernels, "\n}\n") {
		if !strings.Contains(string(doc), strings.TrimSpace(kernel)) {
			t.Errorf("docs/accelerator-kernels.md does not show\n%s", kernel)
		}
	}
}
