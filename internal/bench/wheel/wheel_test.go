package wheel

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// Versions have Python's form and sort: a development build comes before its release.
func TestVersion(t *testing.T) {
	number := hostinfo.Number()
	for _, c := range []struct {
		build hostinfo.Build
		want  string
	}{
		{hostinfo.Build{Version: "v9.8.7"}, "9.8.7"},
		{hostinfo.Build{Version: "0.9.0.dev0+g1a2b3c4d5e6f"}, "0.9.0.dev0+g1a2b3c4d5e6f"},
		{hostinfo.Build{Version: "0.9.0.dev0+g1a2b3c4d5e6f.dirty"}, "0.9.0.dev0+g1a2b3c4d5e6f.dirty"},
		{hostinfo.Build{Version: "1.0.0rc1"}, "1.0.0rc1"},
		{hostinfo.Build{Version: "devel"}, number + ".dev0"},
		{hostinfo.Build{Version: "v0.0.0-20260101000000-0123456789ab+dirty", Revision: "0123456789abcdef"},
			number + ".dev0+g0123456789ab"},
	} {
		if got := Version(c.build); got != c.want || !pythonVersion.MatchString(got) {
			t.Errorf("%+v gives %q, want %q", c.build, got, c.want)
		}
	}
}

// The wheel is reproducible, its record lists every file, and only the program is executable.
func TestWheel(t *testing.T) {
	w := Wheel{Version: "1.2.3", Program: must.Get(os.Executable())(t), Licences: []byte("all of them")}
	name := must.Get(w.Name())(t)
	if !strings.HasPrefix(name, "kernbench-1.2.3-py3-none-manylinux_2_17_") {
		t.Errorf("the wheel is called %s", name)
	}
	var one, two bytes.Buffer
	must.Do(t, w.Write(&one))
	must.Do(t, w.Write(&two))
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("two wheels of the same files differ")
	}
	z := must.Get(zip.NewReader(bytes.NewReader(one.Bytes()), int64(one.Len())))(t)
	last := z.File[len(z.File)-1]
	if last.Name != "kernbench-1.2.3.dist-info/licenses/THIRD_PARTY_NOTICES" {
		t.Errorf("the last file is %s", last.Name)
	}
	record := string(must.Get(io.ReadAll(must.Get(z.Open("kernbench-1.2.3.dist-info/RECORD"))(t)))(t))
	for _, f := range z.File {
		if !strings.Contains(record, f.Name+",") {
			t.Errorf("the record lacks %s:\n%s", f.Name, record)
		}
		if executable := f.Mode()&0o111 != 0; executable != (f.Name == programPath) {
			t.Errorf("%s has mode %v", f.Name, f.Mode())
		}
	}
	for _, want := range []string{"kernbench/__init__.py,", "kernbench/py.typed,", "kernbench/_pytest.py,",
		"kernbench/_command.py,", "kernbench_iris.py,", "kernbench_iris.pth,"} {
		if !strings.Contains(record, want) {
			t.Errorf("the record lacks %s", want)
		}
	}
}

// A file that is not a program is rejected, and a pipe is not waited for.
func TestNoProgram(t *testing.T) {
	dir := t.TempDir()
	text, pipe := filepath.Join(dir, "text"), filepath.Join(dir, "pipe")
	must.Do(t, os.WriteFile(text, []byte("#!/bin/sh\n# not a program\n"), 0o755))
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	for path, want := range map[string]string{text: "bad magic number", pipe: "is a pipe", "/dev/zero": "is a device"} {
		_, err := (Wheel{Version: "1", Program: path}).Name()
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}
