package proc

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
)

// root is the file tree of this machine.
var root = os.DirFS("/")

// tree is a file tree with the given texts.
func tree(files map[string]string) fs.FS {
	made := fstest.MapFS{}
	for name, text := range files {
		made[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return made
}

func TestParseStat(t *testing.T) {
	line := "42 (a) S (b)) %s 7 42 13 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 98765 1000 2 3\n"
	for state, zombie := range map[string]bool{"S": false, "Z": true, "X": true, "R": false} {
		got, ok := parse(42, strings.Replace(line, "%s", state, 1))
		want := Process{ID: ID{42, 98765}, Parent: 7, Session: 13, Name: "a) S (b)", State: state[0], Ticks: 3}
		if !ok || got != want || got.Ended() != zombie {
			t.Errorf("state %s: %+v, %v", state, got, ok)
		}
	}
	own, ok := Read(root, os.Getpid())
	if session, _ := unix.Getsid(0); !ok || own.PID != os.Getpid() || own.Parent != os.Getppid() ||
		own.Session != session {
		t.Errorf("this process is %+v", own)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a) S (b)) S 7 42 13 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 98765 1000 2 3\n"))
	f.Add([]byte(")("))
	f.Fuzz(func(t *testing.T, stat []byte) { parse(42, string(stat)) })
}

// Family gives the same result as a naive transitive closure.
func TestFamily(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parents := rapid.SliceOfN(rapid.IntRange(0, 12), 0, 12).Draw(t, "parents")
		seed := rapid.IntRange(0, 12).Draw(t, "seed")
		var all []Process
		for i, parent := range parents {
			// Loops are possible, because the table changes while it is read.
			all = append(all, Process{ID: ID{PID: i + 1}, Parent: parent})
		}
		want := map[int]bool{}
		for range all {
			for _, p := range all {
				if p.PID == seed || want[p.Parent] {
					want[p.PID] = true
				}
			}
		}
		got := map[int]bool{}
		for _, p := range Family(all, func(p Process) bool { return p.PID == seed }) {
			if got[p.PID] {
				t.Fatalf("%d twice", p.PID)
			}
			got[p.PID] = true
		}
		if !maps.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// A PID that was reused by another process gets no signal.
func TestSignalSparesOthers(t *testing.T) {
	p, _ := Read(root, os.Getpid())
	p.Start++
	p.Signal(unix.SIGKILL) // would end the test
}

// The environment is read completely or not at all, even if it is large and the process ends meanwhile.
func TestEnvironIsWhole(t *testing.T) {
	env := []string{"FILL=" + strings.Repeat("x", 8<<10), "LAST=1"}
	for range 300 {
		cmd := exec.Command("/bin/true")
		cmd.Env = env
		must.Do(t, cmd.Start())
		for p, ok := Read(root, cmd.Process.Pid); ok && !p.Ended(); p, ok = Read(root, cmd.Process.Pid) {
			if seen := Environ(cmd.Process.Pid); seen != nil && !slices.Contains(seen, "LAST=1") {
				t.Fatalf("%d of 2 variables", len(seen))
			}
		}
		cmd.Wait()
	}
	large := exec.Command("sleep", "1000")
	large.Env = append(slices.Repeat(env[:1], 20), "LAST=1")
	must.Do(t, large.Start())
	defer large.Wait()
	defer large.Process.Kill()
	for limit := time.Now().Add(time.Minute); !slices.Contains(Environ(large.Process.Pid), "LAST=1"); {
		if time.Now().After(limit) {
			t.Fatal("the large environment is not complete")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestTreeTicks(t *testing.T) {
	stat := func(times string) string { return "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 " + times + " 20 0 1 0 77\n" }
	root := tree(map[string]string{
		"proc/7/stat": stat("100 20 3 4"), "proc/7/task/7/children": "8 9 ", "proc/7/task/11/children": "",
		"proc/8/stat": stat("1000 0 0 0"), "proc/8/task/8/children": "10",
		"proc/10/stat": stat("1 1 1 1"), "proc/10/task/10/children": "",
		"proc/20/stat": stat("1 1 1 1"), "proc/20/task/20/other": "", // a kernel without the lists
	})
	// Process 9 ended after its parent listed it.
	if ticks, n, ok := TreeTicks(root, 7); ticks != 1131 || n != 3 || !ok {
		t.Errorf("TreeTicks = %d, %d processes, %v; want 1131 of 3", ticks, n, ok)
	}
	for _, pid := range []int{9, 20} {
		if _, _, ok := TreeTicks(root, pid); ok {
			t.Errorf("process %d: its time is known, though it cannot be", pid)
		}
	}
	if _, n, ok := TreeTicks(os.DirFS("/"), os.Getpid()); ok && n < 1 {
		t.Errorf("this process: %d processes", n)
	}
}

// Files of the kernel with any content give counts that are possible.
func FuzzTree(f *testing.F) {
	f.Add("42 (a) S (b)) S 7 42 13 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 7", "42")
	f.Add(")", "7 x")
	f.Add("1 (a) T", "18446744073709551616")
	f.Fuzz(func(t *testing.T, stat, children string) {
		root := tree(map[string]string{"proc/7/stat": stat, "proc/7/task/7/schedstat": children,
			"proc/7/task/7/children": strings.ReplaceAll(children, "7", "8")})
		if _, n, ok := TreeTicks(root, 7); ok && n != 1 {
			t.Errorf("%q: %d processes", stat, n)
		}
		TreeDelay(root, 7)
		FindHeld(root, 7)
	})
}

// A process descends from itself and its ancestors.
func TestDescends(t *testing.T) {
	child := exec.Command("sleep", "60")
	must.Do(t, child.Start())
	defer child.Wait()
	defer child.Process.Kill()
	if !Descends(root, child.Process.Pid, os.Getpid()) || !Descends(root, os.Getpid(), os.Getpid()) {
		t.Error("a child is not recognised")
	}
	if Descends(root, os.Getpid(), child.Process.Pid) || Descends(root, 1<<30, os.Getpid()) {
		t.Error("strangers are taken for children")
	}
}

// Running and waiting times are added up over threads and children.
func TestDelay(t *testing.T) {
	root := fstest.MapFS{
		"proc/7/task/7/schedstat": {Data: []byte("100 30 2\n")}, "proc/7/task/7/children": {Data: []byte("9 \n")},
		"proc/7/task/8/schedstat": {Data: []byte("10 5 1\n")}, "proc/9/task/9/schedstat": {Data: []byte("1 900 2\n")},
	}
	if ran, waited := TreeDelay(root, 7); ran != 111 || waited != 935 {
		t.Errorf("ran %d, waited %d", ran, waited)
	}
	if ran, waited := TreeDelay(root, 8); ran != 0 || waited != 0 {
		t.Errorf("a process that has ended ran %d, waited %d", ran, waited)
	}
}
