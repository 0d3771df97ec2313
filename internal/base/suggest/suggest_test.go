package suggest

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"size", "dtype", "num_ranks", "algorithm"}
	for _, c := range []struct{ in, want string }{
		{"sise", "size"}, {"szie", "size"}, {"SIZE", "size"}, {"dtpye", "dtype"},
		{"ranks", "num_ranks"}, {"algo", "algorithm"}, {"completely-else", ""}, {"zzzz", ""},
	} {
		if got := Nearest(c.in, names); got != c.want {
			t.Errorf("Nearest(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestTypo(t *testing.T) {
	names := []string{"NCCL_PROTO", "NCCL_MIN_CTAS", "GPU_0", "VAR"}
	for _, c := range []struct{ in, want string }{
		{"NCCL_PORTO", "NCCL_PROTO"}, {"NCCL_PRTO", "NCCL_PROTO"}, {"NCLL_PROTO", "NCCL_PROTO"}, {"nccl_proto", "NCCL_PROTO"},
		{"NCCLPROTO", "NCCL_PROTO"}, {"NCCL_MIN_CTA", "NCCL_MIN_CTAS"}, {"NCCL_MAX_CTAS", ""}, {"NCCL_ALGO", ""},
		{"GPU_1", ""},
		{"VAT", ""}, {"NCCL_PROTO", ""}, {"GOGC", ""},
	} {
		if got := Typo(c.in, names); got != c.want {
			t.Errorf("Typo(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

// A name that is a whole file does not fill the terminal.
func TestLongNamesAreCut(t *testing.T) {
	got := Unknown("column", strings.Repeat("[", 200_000), []string{"size"}).Error()
	if want := `unknown column "` + strings.Repeat("[", maxShown) + `"… (known: size)`; got != want {
		t.Errorf("got %.200s, want %s", got, want)
	}
}

func TestUnknownNamesWhatExists(t *testing.T) {
	msg := Unknown("axis", "sise", []string{"size", "dtype"}).Error()
	for _, want := range []string{`unknown axis "sise"`, `did you mean "size"`, "known: dtype, size"} {
		if !strings.Contains(msg, want) {
			t.Errorf("%q lacks %q", msg, want)
		}
	}
	if msg := Unknown("axis", "x", nil).Error(); !strings.Contains(msg, "there is no axis") {
		t.Errorf("empty list: %q", msg)
	}
}
