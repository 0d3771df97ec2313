package hostinfo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// TestCommit compares with what git itself says: on a branch, in a folder below, with packed
// references, detached, and in a worktree.
func TestCommit(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		return strings.TrimSpace(string(must.Get(cmd.Output())(t)))
	}
	check := func(at, want string) {
		t.Helper()
		if got := Commit(at); got != want {
			t.Errorf("Commit(%s) = %q, want %q", at, got, want)
		}
	}
	check(dir, "") // the temporary folder is in no repository
	git("init", "-q")
	check(dir, "") // nothing is committed yet
	git("commit", "-q", "--allow-empty", "-m", "one")
	first := git("rev-parse", "HEAD")
	below := filepath.Join(dir, "a", "b")
	must.Do(t, os.MkdirAll(below, 0o755))
	check(below, first)
	git("pack-refs", "--all")
	check(dir, first)
	git("worktree", "add", "-q", "-b", "other", filepath.Join(dir, "tree"))
	check(filepath.Join(dir, "tree"), first)
	git("commit", "-q", "--allow-empty", "-m", "two")
	check(dir, git("rev-parse", "HEAD"))
	check(filepath.Join(dir, "tree"), first)
	git("checkout", "-q", first)
	check(dir, first)
}
