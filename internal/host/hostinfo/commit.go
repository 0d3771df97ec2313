package hostinfo

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var commitText = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// Commit returns the Git commit that is checked out in a folder or in a folder above it, and ""
// if there is none. It reads Git's files and starts no program. Uncommitted changes are not seen.
func Commit(dir string) string {
	dir, err := filepath.Abs(dir)
	for ; err == nil; dir = filepath.Dir(dir) {
		git := filepath.Join(dir, ".git")
		if info, err := os.Stat(git); err == nil {
			if !info.IsDir() { // a worktree or a submodule
				git = linkedGit(git)
			}
			return headOf(git)
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return ""
}

// readLine returns the text of a small file without surrounding space, or "".
func readLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// linkedGit returns the folder that a .git file refers to.
func linkedGit(file string) string {
	target, ok := strings.CutPrefix(readLine(file), "gitdir: ")
	if !ok {
		return ""
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(file), target)
	}
	return target
}

// headOf returns the commit of a Git folder's HEAD.
func headOf(git string) string {
	head := readLine(filepath.Join(git, "HEAD"))
	name, isRef := strings.CutPrefix(head, "ref: ")
	if !isRef {
		return commitText.FindString(head)
	}
	common := git // a worktree shares its branches with the main one
	if text := readLine(filepath.Join(git, "commondir")); text != "" {
		if common = text; !filepath.IsAbs(text) {
			common = filepath.Join(git, text)
		}
	}
	if commit := commitText.FindString(readLine(filepath.Join(common, filepath.FromSlash(name)))); commit != "" {
		return commit
	}
	for line := range strings.Lines(readLine(filepath.Join(common, "packed-refs"))) {
		if commit, ref, _ := strings.Cut(strings.TrimSpace(line), " "); ref == name {
			return commitText.FindString(commit)
		}
	}
	return ""
}
