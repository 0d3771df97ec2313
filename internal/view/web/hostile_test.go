package web

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// TestHostileRun checks that pipes and links in a RUN folder from somebody else neither block the page nor show
// files from outside the folder.
func TestHostileRun(t *testing.T) {
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(secret, []byte("secret\n"), 0o600))
	run := filepath.Join(dir, "run")
	record(t, run, "r", 1, 2)
	must.Do(t, syscall.Mkfifo(filepath.Join(run, ".r.lock"), 0o600))
	if out := (&cachedJournal{path: run, holders: map[string]*holderCheck{}}).outcome("r", ""); out != stopped {
		t.Errorf("with a pipe as its lock, the run is %s", out)
	}
	launch := filepath.Join(run, "logs", "r", "0001")
	must.Do(t, os.MkdirAll(launch, 0o700))
	must.Do(t, syscall.Mkfifo(filepath.Join(launch, "rank0.err"), 0o600))
	must.Do(t, os.Symlink(secret, filepath.Join(launch, "rank0.out")))
	must.Do(t, os.Symlink("/dev/zero", filepath.Join(launch, "rank1.err")))
	must.Do(t, os.WriteFile(filepath.Join(launch, "rank1.out"), []byte("fine\n"), 0o600))
	if name, ranks := tails(run, "r"); name != "logs/r/0001" || len(ranks) != 1 || ranks[0].Name != "rank1.out" {
		t.Errorf("%s: %+v", name, ranks)
	}
	must.Do(t, syscall.Mkfifo(filepath.Join(run, "logs", "pipe"), 0o600))
	if name, ranks := tails(run, "pipe"); name != "" || ranks != nil {
		t.Errorf("%s: %+v", name, ranks)
	}
}
