package golden

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBlocks(t *testing.T) {
	const page = "# Page\n\n```sh\nkernbench list\n```\n\nText\n\n    kernbench run\n\n    # more\n\n- an item\n\n" +
		"  its second paragraph\n\n      make x\n\n  ```output run -q\n  a  b\n\n  c\n  ```\n\ntext\n    not code\n"
	want := []Block{
		{"p.md", 4, "sh", "", "kernbench list\n"},
		{"p.md", 9, "", "", "kernbench run\n\n# more\n"},
		{"p.md", 17, "", "", "make x\n"},
		{"p.md", 20, "output", "run -q", "a  b\n\nc\n"},
	}
	if diff := cmp.Diff(want, Blocks("p.md", page)); diff != "" {
		t.Error(diff)
	}
}

func TestDiffers(t *testing.T) {
	const printed = "head\nring   1.5 µs\ntree   20 ns\nend\n"
	for _, c := range []struct {
		block string
		mask  func(string) string
		want  bool
	}{
		{"ring   1.5 µs\ntree   20 ns\n", Exact, false},
		{"ring   1.5 µs\n", Exact, false},
		{"ring   1.5 µs\nend\n", Exact, true}, // a line is missing
		{"ring   1.5 µs\n...\nend\n", Exact, false},
		{"...\ntree   20 ns\n", Exact, false},
		{"tree   20 ns\n...\nring   1.5 µs\n", Exact, true}, // another order
		{"ring   1.6 µs\n", Exact, true},
		{"ring  1.6 ms\n", Masked, false},
		{"mesh  1.6 ms\n", Masked, true},
		{"ring\n", Exact, true}, // a part of a line
		{"end\nmore\n", Exact, true},
		{"", Exact, true},
	} {
		if fault := (Block{Text: c.block}).Differs(printed, c.mask); (fault != "") != c.want {
			t.Errorf("%q: %s", c.block, fault)
		}
	}
}

func TestMasked(t *testing.T) {
	for line, want := range map[string]string{
		"host vm (pid 15257) has joined":                  "host NAME (pid N) has joined",
		"into el (run 20261118-133121-4c42)":              "into el (run RUN)",
		"size=1Mi  11.5 µs":                               "size=N bytes N time",
		"n  time (ns)  p90 (ms)":                          "n time (time) p90 (time)",
		"rank 1 (node 0, host a.b-c, pid 7) took 2e-05 s": "rank N (node N, host NAME, pid N) took N time",
	} {
		if got := Masked(line); got != want {
			t.Errorf("%q becomes %q, want %q", line, got, want)
		}
	}
}

func TestShown(t *testing.T) {
	var f faults
	Shown(&f, "nothing-shows-this", "")
	if messages := strings.Join(f.messages, "\n"); !strings.Contains(messages, `no page shows the output "nothing-shows-this"`) {
		t.Errorf("messages %q", messages)
	}
}
