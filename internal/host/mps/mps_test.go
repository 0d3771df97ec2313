package mps

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/cudatest"
)

// keepsDaemon is the environment variable that makes the test binary start a daemon and wait.
const keepsDaemon = "TEST_KEEPS_DAEMON"

func TestMain(m *testing.M) {
	if os.Getenv(keepsDaemon) != "" { // as a rank that will be killed
		d, err := Start()
		fmt.Println(d.dir, err)
		select {}
	}
	os.Exit(m.Run())
}

// The daemon ends when it is stopped. The folder and server of a killed process are removed by the
// next process. Folders of running processes are kept.
func TestDaemonsAreSwept(t *testing.T) {
	programs, temp := t.TempDir(), t.TempDir()
	must.Do(t, cudatest.MPS(programs))
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	t.Setenv("TMPDIR", temp)
	folders := func() (names []string) {
		entries := must.Get(os.ReadDir(temp))(t)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}

	victim := exec.Command("/proc/self/exe")
	victim.Env = append(os.Environ(), keepsDaemon+"=1")
	said := must.Get(victim.StdoutPipe())(t)
	must.Do(t, victim.Start())
	line := must.Get(bufio.NewReader(said).ReadString('\n'))(t)
	dir, _, _ := strings.Cut(line, " ")
	text, err := os.ReadFile(filepath.Join(dir, pipesFolder, "server.pid"))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	server, _ := strconv.Atoi(strings.TrimSpace(string(text)))

	d, err := Start() // sweeps
	if err != nil {
		t.Fatal(err)
	}
	if got := folders(); len(got) != 2 || syscall.Kill(server, 0) != nil {
		t.Fatalf("two daemons have the folders %q; the first one's server: %v", got, syscall.Kill(server, 0))
	}
	victim.Process.Kill()
	victim.Wait()
	must.Do(t, Sweep())
	if got := folders(); len(got) != 1 || got[0] != filepath.Base(d.dir) {
		t.Errorf("after one of two was killed there are %q, want only the folder of the other", got)
	}
	gone(t, server)
	text = must.Get(os.ReadFile(filepath.Join(d.Pipes, "server.pid")))(t)
	server, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	must.Do(t, d.Stop())
	if got := folders(); len(got) != 0 {
		t.Errorf("a daemon that was ended leaves %q", got)
	}
	gone(t, server)
}

// gone waits for the end of a killed process. As an orphan it may remain as a zombie that nobody
// waits for.
func gone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d still runs: %s", pid, stat)
		}
	}
}
