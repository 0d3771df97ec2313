//go:build !race

package main

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/kernbench/kernbench/internal/base/must"
)

// download stands for curl and gh: it copies the files that its arguments name from the release in $DIST.
const download = `#!/bin/bash
for argument; do
	case $argument in *.tar.gz | *SHA256SUMS) cp "$DIST/${argument##*/}" . ;; esac
done
`

// checkCI runs the shell commands of the examples for build servers, with the packages in $DIST, first on the main
// branch and then for a pull request. The second run is compared with the first one.
func checkCI(t *testing.T, shell func(script string) string) {
	shell("mkdir -p $DIR/ci/tools $DIR/ci/github $DIR/ci/gitlab")
	for _, tool := range []string{"curl", "gh"} {
		shell(fmt.Sprintf("cat > $DIR/ci/tools/%s <<'END'\n%sEND\nchmod +x $DIR/ci/tools/%[1]s", tool, download))
	}
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct {
				Name, Run, Uses string
				Env             map[string]string
			}
		}
	}
	must.Do(t, yaml.Unmarshal(must.Get(os.ReadFile("../../examples/ci/github-actions.yaml"))(t), &workflow))
	run := map[string]string{}
	for _, step := range workflow.Jobs["check"].Steps {
		if step.Uses != "" && !strings.Contains(step.Uses, "@v") {
			t.Errorf("the action %s has no version", step.Uses)
		}
		run[step.Name] = step.Run
	}
	var pipeline struct {
		Performance struct {
			BeforeScript []string `yaml:"before_script"`
			Script       []string
			Rules        []struct{ Variables map[string]string }
		}
	}
	must.Do(t, yaml.Unmarshal(must.Get(os.ReadFile("../../examples/ci/gitlab-ci.yaml"))(t), &pipeline))
	job := pipeline.Performance
	lines := slices.Concat(job.BeforeScript, job.Script)

	const begin = "export PATH=$DIR/ci/tools:$PATH VERSION=v9.8.7 KERNBENCH_VERSION=v9.8.7 " +
		"KERNBENCH_PACKAGES=http://release\n"
	for i, ref := range []string{"refs/heads/main", "refs/pull/1/merge"} {
		github := begin + "cd $DIR/ci/github; export GITHUB_REF=" + ref +
			" GITHUB_PATH=$PWD/path GITHUB_STEP_SUMMARY=$PWD/summary\n" + run["Install"] +
			"\nexport PATH=$(tail -1 $GITHUB_PATH):$PATH\n" + run["Run"] + "\n( set -e\n" + run["Check"] +
			"\n) || [ $? = 1 ]\ncat $GITHUB_STEP_SUMMARY || true"
		gitlab := begin + "cd $DIR/ci/gitlab\n"
		for _, name := range slices.Sorted(maps.Keys(job.Rules[i].Variables)) {
			gitlab += fmt.Sprintf("export %s=%q\n", name, job.Rules[i].Variables[name])
		}
		gitlab += "( set -e\n" + strings.Join(lines, "\n") +
			"\n) || case $? in 1 | 3) ;; *) exit 9 ;; esac\ncat check.md check.xml || true"
		for name, script := range map[string]string{"GitHub": github, "GitLab": gitlab} {
			if runtime.GOARCH != "amd64" {
				script = strings.ReplaceAll(script, "linux-amd64", "linux-"+runtime.GOARCH)
			}
			script = strings.ReplaceAll(script, "--size 64K,16M --trials 4",
				"--op copy --size 16K --ranks 1 --trials 2 --max-time 2ms")
			want := []string{"baseline of out/memory: 1 run", map[string]string{"GitHub": "### kernbench: ",
				"GitLab": "<testsuites>"}[name]}[i]
			if text := shell(script); !strings.Contains(text, want) {
				t.Errorf("%s, %s: no %q:\n%s", name, ref, want, text)
			}
		}
	}
}
