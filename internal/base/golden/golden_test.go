package golden

import (
	"fmt"
	"strings"
	"testing"
)

// faults is a test that records its errors.
type faults struct{ messages []string }

func (*faults) Helper()             {}
func (f *faults) Fatal(args ...any) { f.messages = append(f.messages, fmt.Sprint(args...)) }
func (f *faults) Errorf(format string, args ...any) {
	f.messages = append(f.messages, fmt.Sprintf(format, args...))
}

func TestCheck(t *testing.T) {
	if *update {
		t.Skip("the files are renewed")
	}
	for _, c := range []struct{ file, got, want string }{
		{"lines.txt", "one\ntwo\n", ""},
		{"lines.txt", "one\n2\n", "two"},
		{"lines.txt", "one\ntwo", "lines.txt"},
		{"nowhere.txt", "", "nowhere.txt"},
	} {
		var f faults
		Check(&f, c.file, c.got)
		messages := strings.Join(f.messages, "\n")
		if (messages == "") != (c.want == "") || !strings.Contains(messages, c.want) {
			t.Errorf("%q against %s: %q, want %q", c.got, c.file, messages, c.want)
		}
	}
}
