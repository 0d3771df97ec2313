//go:build !nodl && linux

package dynlib

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/must"
)

var libc = Spec{Name: "C library", Sonames: []string{"libnothere.so.9", "libc.so.6"}, Env: "KERNBENCH_TEST_LIBC"}

func open(t *testing.T) *Library {
	t.Helper()
	return must.Get(Open(libc))(t)
}

func TestCall(t *testing.T) {
	l := open(t)
	var strlen, labs Func
	must.Do(t, l.Bind(map[string]*Func{"strlen": &strlen, "labs": &labs}))
	text := []byte("seven77\x00")
	if n := strlen.Call(uintptr(unsafe.Pointer(&text[0]))); n != 7 {
		t.Errorf("strlen = %d, want 7", n)
	}
	if n := labs.Call(^uintptr(41)); n != 42 {
		t.Errorf("labs(-42) = %d, want 42", n)
	}
}

func TestFileOf(t *testing.T) {
	l := open(t)
	var labs Func
	must.Do(t, l.Bind(map[string]*Func{"labs": &labs}))
	if file := FileOf(labs); !strings.Contains(file, "/libc") {
		t.Errorf("labs comes from %q", file)
	}
	if file := FileOf(1); file != "" {
		t.Errorf("address 1 is of %q", file)
	}
}

// TestCallback sorts with qsort and a comparison in Go, which reads the elements through Bytes.
func TestCallback(t *testing.T) {
	l := open(t)
	var qsort Func
	must.Do(t, l.Bind(map[string]*Func{"qsort": &qsort}))
	calls := 0
	descending := Callback(func(a, b uintptr) uintptr {
		calls++
		return uintptr(int(Bytes(b, 1)[0]) - int(Bytes(a, 1)[0]))
	})
	text := []byte("callback")
	qsort.Call(uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)), 1, uintptr(descending))
	if string(text) != "llkccbaa" || calls == 0 {
		t.Errorf("sorted to %q in %d comparisons", text, calls)
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func TestMissingSymbolsAreAllNamed(t *testing.T) {
	l := open(t)
	l.SetVersion("2.x")
	var f, g, ok Func
	err := l.Bind(map[string]*Func{"no_such_a": &f, "no_such_b": &g, "labs": &ok})
	wantError(t, err, "C library 2.x (libc.so.6) has no no_such_a", "no_such_b")
	if strings.Contains(err.Error(), "labs") {
		t.Errorf("error names a symbol that is there: %v", err)
	}
}

func TestMissingLibrary(t *testing.T) {
	_, err := Open(Spec{Name: "Nothing", Sonames: []string{"liba-no.so", "libb-no.so"}, Env: "KERNBENCH_TEST_NO",
		Hint: "install it"})
	wantError(t, err, "opening Nothing", "liba-no.so", "libb-no.so", "install it", "KERNBENCH_TEST_NO may name its file")
}

// TestVariableReplacesTheList checks that a wrong file in the variable is an error, even if a
// library of the list exists.
func TestVariableReplacesTheList(t *testing.T) {
	t.Setenv(libc.Env, "/no/such/file.so")
	_, err := Open(libc)
	wantError(t, err, "/no/such/file.so")
	t.Setenv(libc.Env, "libm.so.6")
	l := open(t)
	if got := l.String(); got != "C library (libm.so.6)" {
		t.Errorf("opened %s", got)
	}
}

// TestFolders finds libraries in folders with versions in their names and below variables that
// are lists. A variable that is not set is not replaced by the root folder.
func TestFolders(t *testing.T) {
	root := t.TempDir()
	touch := func(path string) string {
		path = filepath.Join(root, path)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)))
		return path
	}
	old, young := touch("cuda-12.4/lib64/libnccl.so.2"), touch("cuda-13.0/lib64/libnccl.so.2")
	pip := touch("venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2")
	touch("venv/bin/python3")
	touch("cuda-12.4/lib64/libnccl.so.1")
	s := Spec{Name: "NCCL", Sonames: []string{"libnccl.so.2"},
		Folders: []string{"$TOOLKIT/lib64", "$PATH/../lib/python3*/site-packages/nvidia/nccl/lib", root + "/cuda-*/lib64"}}
	environ := map[string]string{"PATH": "relative:" + root + "/nothing/bin:" + root + "/venv/bin"}
	found := s.inFolders(func(name string) string { return environ[name] })
	if want := []string{pip, young, old}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	if _, err := Open(s); err == nil || !strings.Contains(err.Error(), "too short") {
		t.Errorf("empty files were opened: %v", err)
	}
	s.Folders = []string{"$NOWHERE/lib64"}
	if _, err := Open(s); err == nil || !strings.Contains(err.Error(), "nor in 1 folders such as $NOWHERE/lib64") {
		t.Errorf("the error does not say where was looked: %v", err)
	}
}

// TestReasonIsKept checks that the error names the missing library, although goroutines move between
// threads.
func TestReasonIsKept(t *testing.T) {
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for range 300 {
				if _, err := load("libnowhere.so.1"); err == nil || !strings.Contains(err.Error(), "libnowhere.so.1") {
					t.Errorf("the error is %q", err)
					return
				}
			}
		})
	}
	group.Wait()
}
