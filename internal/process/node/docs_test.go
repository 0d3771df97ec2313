package node_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// tryFlags runs the flags of a documented launch on this host alone, with a
// program that does nothing: the names and forms of the flags are checked, and
// what they would do on several hosts is other tests' matter.
func tryFlags(t *testing.T, where string, args []string) {
	t.Helper()
	end := slices.Index(args, "--")
	if end < 0 {
		t.Errorf("%s: no -- before the program: %q", where, args)
		return
	}
	// Of a flag that is given twice the last counts.
	args = append(slices.Clone(args[:end]), "--nnodes=1", "--node-rank=0", "--nproc-per-node=1", "--interface=lo", "--", "true")
	if l := start(t, nil, args...); l.wait() != 0 {
		t.Errorf("%s: %q: %s", where, args, l.stderr)
	}
}

func TestDocumentedLaunches(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/clusters.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^ {4}.*kernbench launch (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(found) < 3 {
		t.Errorf("only %d indented launches were found: has the form of the document changed?", len(found))
	}
	for _, f := range found {
		line := strings.NewReplacer(`"$SLURM_NNODES"`, "4", `"$head:29400"`, "node0:29400", `"$SLURM_JOB_ID"`, "99").Replace(f[1])
		if strings.ContainsAny(line, `$"`) {
			t.Errorf("a variable that the test does not know: %s", line)
		}
		tryFlags(t, "clusters.md", strings.Fields(line))
	}
}

// jobSet is as much of a JobSet as the launcher depends on.
type jobSet struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		ReplicatedJobs []struct {
			Name     string
			Replicas int
			Template struct {
				Spec struct {
					CompletionMode string `yaml:"completionMode"`
					Completions    int
					Parallelism    int
					BackoffLimit   *int `yaml:"backoffLimit"`
					Template       struct {
						Spec struct {
							RestartPolicy string `yaml:"restartPolicy"`
							Containers    []struct {
								Command []string
								Env     []struct{ Name string }
							}
							Volumes []struct {
								Name     string
								EmptyDir struct{ Medium string } `yaml:"emptyDir"`
							}
						}
					}
				}
			}
		} `yaml:"replicatedJobs"`
	}
}

// The JobSet is one that Kubernetes would take: nodes, names and counts fit
// together, and its command is a launch.
func TestJobSet(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/jobset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var set jobSet
	if err := yaml.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	if set.APIVersion != "jobset.x-k8s.io/v1alpha2" || set.Kind != "JobSet" || len(set.Spec.ReplicatedJobs) != 1 {
		t.Fatalf("not the JobSet that was expected: %+v", set)
	}
	job := set.Spec.ReplicatedJobs[0]
	spec := job.Template.Spec
	pod := spec.Template.Spec
	if spec.CompletionMode != "Indexed" || spec.Completions != spec.Parallelism || spec.Completions < 2 ||
		spec.BackoffLimit == nil || *spec.BackoffLimit != 0 || pod.RestartPolicy != "Never" || len(pod.Containers) != 1 {
		t.Errorf("the pods would not run together once: %+v", spec)
	}
	argv := pod.Containers[0].Command
	if len(argv) < 3 || argv[0] != "kernbench" || argv[1] != "launch" {
		t.Fatalf("command %q", argv)
	}
	for _, want := range []string{
		"--nnodes=2", "--node-rank=$(JOB_COMPLETION_INDEX)",
		"--rdzv-endpoint=" + set.Metadata.Name + "-" + job.Name + "-0-0." + set.Metadata.Name + ":29400",
	} {
		if !slices.Contains(argv, want) {
			t.Errorf("the command lacks %s: %q", want, argv)
		}
	}
	for _, name := range []string{"KERNBENCH_RDZV_SECRET", "JOB_COMPLETION_INDEX"} {
		if !slices.ContainsFunc(pod.Containers[0].Env, func(e struct{ Name string }) bool { return e.Name == name }) {
			t.Errorf("the variable %s is not set", name)
		}
	}
	tryFlags(t, "jobset.yaml", slices.DeleteFunc(slices.Clone(argv[2:]), func(a string) bool { return strings.HasPrefix(a, "--node-rank=") }))
}
