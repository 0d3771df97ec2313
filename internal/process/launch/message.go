package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// request is a frame from the supervisor to the agent: exactly one field is set. Files come in frames of their own
// before the launch that uses them, because one frame can carry only so many.
type request struct {
	Files  int            `json:"files,omitempty"` // this many descriptors come with this frame
	Launch *launchRequest `json:"launch,omitempty"`
	Stop   *StopRequest   `json:"stop,omitempty"`
	Signal *signalRequest `json:"signal,omitempty"`

	files []*os.File // that came for a launch
}

// reply is a frame from the agent to the supervisor: exactly one field is set.
type reply struct {
	Hello    *hello    `json:"hello,omitempty"`
	Launched []Started `json:"launched,omitempty"` // every process runs
	Refused  string    `json:"refused,omitempty"`  // the launch did not come about; nothing of it is left
	Exited   *Exit     `json:"exited,omitempty"`
	Ending   bool      `json:"ending,omitempty"` // the agent is about to end the launch of its own accord
	Done     *Outcome  `json:"done,omitempty"`
	Leaving  bool      `json:"leaving,omitempty"` // beside Done or Refused: it will take no other launch
	Bye      bool      `json:"bye,omitempty"`     // the agent exits and has no child
}

// hello opens the connection; the token proves that the peer is the process that was started for this purpose.
type hello struct {
	Token string `json:"token"`
}

// launchRequest is a Spec as it is sent.
type launchRequest struct {
	ID     int           `json:"id"`
	Procs  []sentProc    `json:"procs"`
	Settle time.Duration `json:"settle"`
	Spec
}

// sentProc is a Proc as it is sent.
type sentProc struct {
	Rank           int         `json:"rank"`
	Argv           ByteStrings `json:"argv"`
	Env            ByteStrings `json:"env"`
	Dir            []byte      `json:"dir"`             // see Texts
	Files          []int       `json:"files,omitempty"` // indices into the files sent before
	Stdout, Stderr []byte      `json:",omitempty"`
	CPUs           []int       `json:"cpus,omitempty"`
}

// StopRequest is how a launch is to end. It names its launch, for it may cross the end of it on the way.
type StopRequest struct {
	ID     int    `json:"id"`
	Reason string `json:"reason"`
	Dump   bool   `json:"dump,omitempty"`
	Hung   bool   `json:"hung,omitempty"` // what the ranks are at is looked at first
}

// signalRequest is a signal for every process of its launch.
type signalRequest struct {
	ID     int            `json:"id"`
	Signal syscall.Signal `json:"signal"`
}

// ByteStrings travel as bytes and not as JSON strings, which cannot carry what is not UTF-8 and would silently change it.
type ByteStrings []string

// MarshalJSON writes the bytes of each text.
func (t ByteStrings) MarshalJSON() ([]byte, error) {
	return json.Marshal(lists.Map(t, func(text string) []byte { return []byte(text) }))
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *ByteStrings) UnmarshalJSON(data []byte) error {
	var all [][]byte
	err := json.Unmarshal(data, &all)
	*t = make(ByteStrings, len(all))
	for i, text := range all {
		(*t)[i] = string(text)
	}
	return err
}

// EnvOverrides are variables and their values, nil for one that is not set. They travel as [Texts] do; of none there is
// nothing left.
type EnvOverrides map[string]*string

// MarshalJSON writes NAME=value of each variable that is set, and NAME of each that is not.
func (s EnvOverrides) MarshalJSON() ([]byte, error) {
	var entries ByteStrings
	for name, value := range s {
		if value != nil {
			name += "=" + *value
		}
		entries = append(entries, name)
	}
	return json.Marshal(entries)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *EnvOverrides) UnmarshalJSON(data []byte) error {
	var entries ByteStrings
	err := json.Unmarshal(data, &entries)
	if *s = nil; len(entries) > 0 {
		*s = EnvOverrides{}
	}
	for _, entry := range entries {
		name, value, set := strings.Cut(entry, "=")
		if (*s)[name] = nil; set {
			(*s)[name] = &value
		}
	}
	return err
}

// maxCPUs is the size of the kernel's cpu_set_t.
const maxCPUs = 1024

// encode checks the processes, all of them, and makes them ready to be sent. A file that several share is sent once.
func (a *Agent) encode(procs []Proc) ([]sentProc, []*os.File, error) {
	if len(procs) == 0 {
		return nil, nil, errors.New("no process to start")
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, nil, err
	}
	absolute := func(path string) []byte {
		if path != "" && !filepath.IsAbs(path) {
			path = filepath.Join(here, path)
		}
		return []byte(path)
	}
	var faults []error
	var files []*os.File
	var out []sentProc
	index := make(map[*os.File]int)
	taken := make(map[int]bool)
	for _, p := range procs {
		for _, fault := range p.faults() {
			faults = append(faults, fmt.Errorf("rank %d: %w", p.Rank, fault))
		}
		if taken[p.Rank] {
			faults = append(faults, fmt.Errorf("rank %d: duplicate rank", p.Rank))
		}
		taken[p.Rank] = true
		w := sentProc{
			Rank: p.Rank, Argv: p.Argv, Env: a.tagged(p.Env), Dir: absolute(p.Dir),
			Stdout: absolute(p.Stdout), Stderr: absolute(p.Stderr), CPUs: p.CPUs,
		}
		if p.Dir == "" {
			w.Dir = []byte(here)
		}
		for _, f := range p.ExtraFiles {
			if _, ok := index[f]; !ok {
				index[f] = len(files)
				files = append(files, f)
			}
			w.Files = append(w.Files, index[f])
		}
		out = append(out, w)
	}
	return out, files, errors.Join(faults...)
}

// tagged is env with the mark by which a lost agent's processes are found.
func (a *Agent) tagged(env []string) []string {
	return EnvOverrides{TagVar: &a.tag}.Apply(env)
}

// faults returns what makes a process impossible to start, where the kernel would only say "invalid argument".
func (p Proc) faults() (faults []error) {
	if p.Rank < 0 {
		faults = append(faults, errors.New("the rank is negative"))
	}
	if len(p.Argv) == 0 || p.Argv[0] == "" {
		faults = append(faults, errors.New("no program in argv"))
	}
	for i, arg := range p.Argv {
		if strings.ContainsRune(arg, 0) {
			faults = append(faults, fmt.Errorf("argument %d holds a NUL byte", i))
		}
	}
	for _, entry := range p.Env {
		if name, _, ok := strings.Cut(entry, "="); !ok || name == "" || strings.ContainsRune(entry, 0) {
			faults = append(faults, fmt.Errorf("environment entry %q is not NAME=value without NUL bytes", entry))
		}
	}
	for _, cpu := range p.CPUs {
		if cpu < 0 || cpu >= maxCPUs {
			faults = append(faults, fmt.Errorf("CPU %d is not between 0 and %d", cpu, maxCPUs-1))
		}
	}
	if slices.Contains(p.ExtraFiles, nil) {
		faults = append(faults, errors.New("an extra file is nil"))
	}
	return faults
}
