package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/kernbench/kernbench/internal/base/must"
)

// completionIndex is the field path by which a pod learns its index in the job.
const completionIndex = "metadata.annotations['batch.kubernetes.io/job-completion-index']"

// jobSet is the part of a JobSet that the launcher depends on.
type jobSet struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		ReplicatedJobs []struct {
			Name     string
			Template struct {
				Spec struct {
					CompletionMode string `yaml:"completionMode"`
					Completions    int
					Parallelism    int
					BackoffLimit   *int `yaml:"backoffLimit"`
					Template       struct{ Spec pod }
				}
			}
		} `yaml:"replicatedJobs"`
	}
}

type pod struct {
	RestartPolicy string `yaml:"restartPolicy"`
	Containers    []struct {
		Command []string
		Env     []struct {
			Name, Value string
			ValueFrom   struct {
				SecretKeyRef *struct{ Name, Key string } `yaml:"secretKeyRef"`
				FieldRef     *struct {
					FieldPath string `yaml:"fieldPath"`
				} `yaml:"fieldRef"`
			} `yaml:"valueFrom"`
		}
		VolumeMounts []struct {
			MountPath string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	}
	Volumes []struct {
		EmptyDir struct {
			SizeLimit string `yaml:"sizeLimit"`
		} `yaml:"emptyDir"`
	}
}

const jobSetFile = "../../docs/jobset.yaml"

func readJobSet(t *testing.T, into any) {
	t.Helper()
	text := must.Get(os.ReadFile(jobSetFile))(t)
	must.Do(t, yaml.Unmarshal(text, into))
}

// The JobSet is consistent: its nodes, names and counts fit together, and its command is a launch.
func TestJobSet(t *testing.T) {
	t.Parallel()
	var set jobSet
	readJobSet(t, &set)
	if set.APIVersion != "jobset.x-k8s.io/v1alpha2" || set.Kind != "JobSet" || len(set.Spec.ReplicatedJobs) != 1 {
		t.Fatalf("not the JobSet that was expected: %+v", set)
	}
	job := set.Spec.ReplicatedJobs[0]
	spec := job.Template.Spec
	pod := spec.Template.Spec
	if spec.CompletionMode != "Indexed" || spec.Completions != spec.Parallelism || spec.Completions != 2 ||
		spec.BackoffLimit == nil || *spec.BackoffLimit != 0 || pod.RestartPolicy != "Never" || len(pod.Containers) != 1 {
		t.Errorf("the pods would not run together once: %+v", spec)
	}
	mounts := pod.Containers[0].VolumeMounts
	if len(mounts) != 1 || mounts[0].MountPath != "/dev/shm" || len(pod.Volumes) != 1 {
		t.Errorf("the pods mount %+v", mounts)
	}
	argv := pod.Containers[0].Command
	if len(argv) < 3 || argv[0] != "kernbench" || argv[1] != "launch" || !slices.Contains(argv, "--nnodes=2") {
		t.Errorf("command %q", argv)
	}
}

// schema is a structural schema of Kubernetes, as the server applies it to a request.
type schema struct {
	Type        string
	Properties  map[string]*schema
	Required    []string
	Items       *schema
	Additional  *schema `json:"additionalProperties"`
	Enum        []any
	Pattern     string
	Minimum     *float64
	MaxItems    *int
	IntOrString bool `json:"x-kubernetes-int-or-string"`
}

// faults lists what the server would refuse, including unknown fields, like kubectl's
// --validate=strict.
func (s *schema) faults(at string, value any) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, at+": "+fmt.Sprintf(format, args...)) }
	switch v := value.(type) {
	case map[string]any:
		if s.Type != "object" {
			fault("an object, not %s", s.Type)
		}
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				fault("%s is missing", name)
			}
		}
		for name, field := range v {
			switch inner := s.Properties[name]; {
			case inner != nil:
				faults = append(faults, inner.faults(at+"."+name, field)...)
			case s.Additional != nil:
				faults = append(faults, s.Additional.faults(at+"."+name, field)...)
			case s.Properties != nil || at != ".metadata": // .metadata has a schema of its own
				fault("unknown field %s", name)
			}
		}
	case []any:
		if s.Type != "array" || s.MaxItems != nil && len(v) > *s.MaxItems {
			fault("%d items of an array, not %s", len(v), s.Type)
			return faults
		}
		for i, item := range v {
			faults = append(faults, s.Items.faults(fmt.Sprintf("%s[%d]", at, i), item)...)
		}
	case float64:
		if !s.IntOrString && s.Type != "integer" && s.Type != "number" || s.Minimum != nil && v < *s.Minimum ||
			s.Type != "number" && v != float64(int64(v)) {
			fault("%v is not %s of at least %v", v, s.Type, s.Minimum)
		}
	case string:
		if matched, err := regexp.MatchString(s.Pattern, v); !s.IntOrString && s.Type != "string" || !matched || err != nil {
			fault("%q is not %s like %q", v, s.Type, s.Pattern)
		}
	case bool:
		if s.Type != "boolean" {
			fault("%v is not %s", v, s.Type)
		}
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, value) {
		fault("%v is none of %v", value, s.Enum)
	}
	return faults
}

// The manifest is validated with the schema that JobSet installs on the server, which includes the schemas
// of jobs and pods. The file is the custom resource definition of the release without descriptions,
// Copyright The Kubernetes Authors, Apache License 2.0; scripts/jobset.sh makes it.
func TestJobSetSchema(t *testing.T) {
	f := must.Get(os.Open("testdata/jobset-v0.10.1.json.gz"))(t)
	defer f.Close()
	unzipped := must.Get(gzip.NewReader(f))(t)
	var s schema
	must.Do(t, json.NewDecoder(unzipped).Decode(&s))
	var manifest any
	readJobSet(t, &manifest)
	check := func(manifest any) []string {
		text, err := json.Marshal(manifest) // the form that kubectl sends
		if err != nil {
			t.Fatal(err)
		}
		var sent any
		must.Do(t, json.Unmarshal(text, &sent))
		return s.faults("", sent)
	}
	for _, fault := range check(manifest) {
		t.Errorf("jobset.yaml%s", fault)
	}
	// Planted errors, all of which the server would refuse.
	text := must.Get(os.ReadFile(jobSetFile))(t)
	for old, planted := range map[string]string{
		"completionMode:": "completionMod:", "backoffLimit: 0": "backoffLimit: none", "replicas: 1": "replicas: 1.5",
		"                - name: launch\n": "                - nam: launch\n", "maxRestarts: 0": "maxRestarts: [0]",
		"restartPolicy:":       "restart_policy:",
		"containerPort: 29400": "containerPort: 29400\n                      port: 1", "sizeLimit: 4Gi": "sizeLimit: plenty",
		"    - name: node\n": "    - names: node\n", "mountPath:": "path:", "cpu: 4": "cpu: all",
	} {
		wrong := strings.Replace(string(text), old, planted, 1)
		var manifest any
		if err := yaml.Unmarshal([]byte(wrong), &manifest); err != nil || wrong == string(text) {
			t.Fatalf("planting %q: %v", planted, err)
		}
		if len(check(manifest)) == 0 {
			t.Errorf("%q passes", planted)
		}
	}
}
