//go:build !race

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestDist builds the release files of this architecture: archives, Debian package, wheel and container image. It
// installs the package into a folder and the wheel into virtual environments, runs them from there, and runs the image.
func TestDist(t *testing.T) {
	if testing.Short() {
		t.Skip("make release-test builds the release files")
	}
	t.Parallel()
	shell := shellIn(t)
	shell("../../scripts/dist.sh v9.8.7 $ARCH static-$ARCH")
	// dist.sh must reject a program for another architecture under this name.
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	text := shell("cp -r $DIST $DIR/wrong && cd $DIR/wrong && " +
		"mv kernbench-v9.8.7-linux-$ARCH.tar.gz kernbench-v9.8.7-linux-" + other + ".tar.gz && " +
		"! $OLDPWD/../../scripts/dist-check.sh . 2>&1")
	if !strings.Contains(text, "is for "+runtime.GOARCH) {
		t.Errorf("an archive with a wrong name: %s", text)
	}
	shell("cd $DIST && sha256sum -c SHA256SUMS && mkdir $DIR/root && dpkg-deb -x kernbench_9.8.7_*.deb $DIR/root && " +
		"tar xzf kernbench-v9.8.7-linux-$ARCH.tar.gz -C $DIR")
	fields := shell("dpkg-deb -f $DIST/*.deb Package Version Architecture Depends")
	if fields != "Package: kernbench\nVersion: 9.8.7\nArchitecture: "+runtime.GOARCH+"\nDepends: libc6\n" {
		t.Errorf("the package is\n%s", fields)
	}
	for _, root := range []string{"root/usr", "kernbench-v9.8.7-linux-" + runtime.GOARCH} {
		root = "$DIR/" + root
		if text := shell(root + "/bin/kernbench version"); !strings.Contains(text, "v9.8.7") {
			t.Errorf("it calls itself %s", text)
		}
		for file, want := range map[string]string{
			"share/man/man1/kernbench-run.1.gz":              "KERNBENCH",
			"share/bash-completion/completions/kernbench":    "__complete",
			"share/zsh/vendor-completions/_kernbench":        "#compdef kernbench",
			"share/fish/vendor_completions.d/kernbench.fish": "complete -c kernbench",
			"share/doc/kernbench/THIRD_PARTY_NOTICES":        "==== github.com/spf13/cobra v",
		} {
			if text := shell("zcat -f " + root + "/" + file); !strings.Contains(text, want) {
				t.Errorf("%s lacks %q", file, want)
			}
		}
	}
	text = shell("cd $DIR && root/usr/bin/kernbench run -q --bench memory --op copy --size 16K --ranks 1 --format csv")
	if !strings.Contains(text, "copy") {
		t.Errorf("the installed program measures nothing: %s", text)
	}
	checkWheel(t, shell)
	checkCI(t, shell)
	checkImage(t, shell)
}

// shellIn makes a folder for the test, and returns a function that runs scripts with the variables $DIR, this folder,
// $DIST, a folder for release files, and $ARCH.
func shellIn(t *testing.T) (shell func(script string) string) {
	dir := t.TempDir()
	return func(script string) string {
		t.Helper()
		cmd := exec.Command("bash", "-euc", script)
		cmd.Env = append(os.Environ(), "DIST="+filepath.Join(dir, "dist"), "DIR="+dir, "ARCH="+runtime.GOARCH)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return string(out)
	}
}
