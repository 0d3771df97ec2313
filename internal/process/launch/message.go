package launch

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/host/jobenv"
)

// request is a frame from the supervisor to the agent. Exactly one field is set. Files are sent in
// frames of their own before the launch that uses them, because a frame can carry only MaxFiles.
type request struct {
	Files  int            `json:"files,omitempty"` // number of descriptors that come with this frame
	Launch *launchRequest `json:"launch,omitempty"`
	Stop   *StopRequest   `json:"stop,omitempty"`
	Signal *signalRequest `json:"signal,omitempty"`

	files []*os.File // received for a launch
}

// reply is a frame from the agent to the supervisor. Exactly one field is set. Only Leaving comes with another one,
// Done or Refused.
type reply struct {
	Hello    bool      `json:"hello,omitempty"`    // the first reply
	Launched []Started `json:"launched,omitempty"` // every process runs
	Refused  string    `json:"refused,omitempty"`  // the launch was not started; nothing of it is left
	Exited   *Exit     `json:"exited,omitempty"`
	Ending   bool      `json:"ending,omitempty"` // the agent is ending the launch without a request
	Done     *Outcome  `json:"done,omitempty"`
	Leaving  bool      `json:"leaving,omitempty"` // with Done or Refused: the agent accepts no other launch
	Bye      bool      `json:"bye,omitempty"`     // the agent exits and has no children
}

// launchRequest is the wire form of a Spec.
type launchRequest struct {
	ID     int           `json:"id"`
	Procs  []procRequest `json:"procs"`
	Settle time.Duration `json:"settle"`
	Spec
}

// procRequest is the wire form of a Proc.
type procRequest struct {
	Rank           int         `json:"rank"`
	Argv           ByteStrings `json:"argv"`
	Env            ByteStrings `json:"env"`
	Dir            []byte      `json:"dir"`             // bytes, see ByteStrings
	Files          []int       `json:"files,omitempty"` // indices into the files sent before
	Stdout, Stderr []byte      `json:",omitempty"`
	CPUs           []int       `json:"cpus,omitempty"`
}

// StopRequest says how to end a launch. Stop fills in ID, the number of the launch. The agent ignores a request that
// arrives after its launch has ended.
type StopRequest struct {
	ID     int    `json:"id"`
	Reason string `json:"reason"`
	// Dump first sends SIGQUIT to the ranks and waits up to DefaultGrace, so that Go programs write their goroutine
	// stacks to the log.
	Dump bool `json:"dump,omitempty"`
	// Hung first observes the ranks for about half a second; the result is in Exit.Activity.
	Hung bool `json:"hung,omitempty"`
}

// signalRequest is a signal for every process of a launch.
type signalRequest struct {
	ID     int            `json:"id"`
	Signal syscall.Signal `json:"signal"`
}

// ByteStrings are strings that JSON encodes as bytes. Arguments and environment variables need not be valid UTF-8, and
// encoding/json silently replaces invalid bytes of a string.
type ByteStrings []string

// MarshalJSON encodes the bytes of each string.
func (t ByteStrings) MarshalJSON() ([]byte, error) {
	return json.Marshal(lists.Map(t, func(text string) []byte { return []byte(text) }))
}

// UnmarshalJSON decodes the output of MarshalJSON.
func (t *ByteStrings) UnmarshalJSON(data []byte) error {
	var all [][]byte
	err := json.Unmarshal(data, &all)
	*t = make(ByteStrings, len(all))
	for i, text := range all {
		(*t)[i] = string(text)
	}
	return err
}

// EnvOverrides are environment variables and their values; nil removes a variable. They are encoded
// like [ByteStrings]. An empty map is decoded as nil.
type EnvOverrides map[string]*string

// MarshalJSON encodes NAME=value for each variable that is set, and NAME for each that is removed.
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

// UnmarshalJSON decodes the output of MarshalJSON.
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

// ParseCommand splits a command line at blanks. Blanks in single or double quotes do not split. No other characters are
// special, because no shell runs the command. It returns nil for a command without a word.
func ParseCommand(text string) (words []string, err error) {
	var word strings.Builder
	begun, quote := false, rune(0)
	for _, c := range text {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("the command %q has a quote %c that is not closed", text, quote)
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// encode validates all processes of a launch and converts them to their wire form. A file that several processes share
// is opened and sent once. The caller closes the files.
func (a *Agent) encode(spec Spec) (out []procRequest, files []*os.File, err error) {
	if len(spec.Procs) == 0 {
		return nil, nil, errors.New("no process to start")
	}
	cwd, err := os.Getwd()
	if err != nil {
		return nil, nil, err
	}
	absolute := func(path string) []byte {
		if path != "" && !filepath.IsAbs(path) {
			path = filepath.Join(cwd, path)
		}
		return []byte(path)
	}
	index := make(map[string]int) // of files, by path
	for _, p := range spec.Procs {
		w := procRequest{
			Rank: p.Rank, Argv: p.Argv, Env: p.environ(spec.Environ, a.tag), Dir: absolute(cmp.Or(p.Dir, cwd)),
			Stdout: absolute(p.Stdout), Stderr: absolute(p.Stderr), CPUs: p.CPUs,
		}
		for _, path := range p.Files {
			if _, ok := index[path]; !ok {
				f, err := os.OpenFile(path, os.O_RDWR, 0)
				if err != nil {
					return nil, files, fmt.Errorf("rank %d: opening a file for it: %w", p.Rank, WithLimit(err))
				}
				index[path] = len(files)
				files = append(files, f)
			}
			w.Files = append(w.Files, index[path])
		}
		if fd, is := p.launcherFD(spec.Environ); is {
			own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				return nil, files, fmt.Errorf("rank %d: the launcher's descriptor %d: %w", p.Rank, fd, err)
			}
			w.Files = append(w.Files, len(files))
			files = append(files, os.NewFile(uintptr(own), "the launcher's descriptor"))
		}
		if err := w.check(); err != nil {
			return nil, files, fmt.Errorf("rank %d: %w", p.Rank, err)
		}
		out = append(out, w)
	}
	return out, files, nil
}

// check returns mistakes for which the kernel would only report "invalid argument".
func (p procRequest) check() error {
	switch {
	case len(p.Argv) == 0 || p.Argv[0] == "":
		return errors.New("no program in argv")
	case strings.ContainsRune(strings.Join(p.Argv, ""), 0):
		return fmt.Errorf("an argument holds a NUL byte: %q", p.Argv)
	}
	if entry, is := lists.First(p.Env, func(e string) bool { return strings.ContainsRune(e, 0) }); is {
		return fmt.Errorf("environment entry %q holds a NUL byte", entry)
	}
	return nil
}

// pmiVar is Hydra's variable that names the descriptor which connects MPICH to it.
const pmiVar = "PMI_FD"

// launcherFD returns the descriptor that the launcher has left open for a native process.
func (p Proc) launcherFD(base []string) (fd int, is bool) {
	fd, err := strconv.Atoi(jobenv.Variable(base, pmiVar))
	_, replaced := p.Env[pmiVar]
	return fd, p.Native && err == nil && !replaced
}

// environ returns the environment of the process. The launcher's descriptor follows the files.
func (p Proc) environ(base []string, tag string) []string {
	own := EnvOverrides{TagVar: &tag}
	if !p.Native {
		return merge(base, isInherited, p.Env, p.Vars.values(), own)
	}
	if _, is := p.launcherFD(base); is {
		moved := strconv.Itoa(3 + len(p.Files))
		own[pmiVar] = &moved
	}
	return merge(base, anyName, p.Vars.values(), p.Env, own)
}

const (
	// TagVar is set in every process of a launch. Its descendants inherit it unless they clear their environment.
	TagVar = "KERNBENCH_LAUNCH"

	// HelperVar makes a program run a helper of one of its benches; the value is "bench/helper".
	HelperVar = "KERNBENCH_HELPER"

	// agentVar makes a program run as an agent; see MaybeAgent.
	agentVar = "KERNBENCH_AGENT"
)

// RankVars are the environment variables that tell a rank its number and how to reach its peers. They have torchrun's
// names.
type RankVars struct {
	Rank, WorldSize           int
	LocalRank, LocalWorldSize int
	MasterAddr                string // "" for 127.0.0.1
	MasterPort                int
}

// launcherVars are the variables that other launchers set for their ranks. A program that inherited them would join
// that job instead of ours. A trailing * matches any suffix.
var (
	launcherVars = []string{
		"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_*", "NODE_RANK",
		"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_*",
		"OMPI_COMM_WORLD_*", "OMPI_UNIVERSE_SIZE", "PMIX_*",
		"PMI_*", "HYDI_CONTROL_FD", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
		"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_*",
		"KERNBENCH_*",
	}
	// settingVars are settings of the user although they match a pattern above. So are the variables that name
	// the file of a dynamic library (isUserSetting).
	settingVars = []string{"PMIX_MCA_*", "KERNBENCH_HOST", "KERNBENCH_MPI_LIB", "KERNBENCH_PETSC",
		"KERNBENCH_CUDA_TAKE_TURNS", "KERNBENCH_IRIS_FLAGS"}
)

// IsReserved reports whether kernbench itself sets this variable for every rank, so that a sweep
// cannot set it.
func IsReserved(name string) bool {
	_, ofRank := new(RankVars).values()[name]
	return ofRank || strings.HasPrefix(name, "KERNBENCH_") && !isUserSetting(name)
}

// isUserSetting reports whether a variable is a setting of the user for all processes.
func isUserSetting(name string) bool {
	return matches(settingVars, name) ||
		slices.ContainsFunc(dynlib.Libraries.All(), func(s dynlib.Spec) bool { return s.Env == name })
}

// Environ returns the complete environment of a process, sorted by name. It starts from base, removes the variables of
// an outer launcher, applies set (nil removes a variable) and then adds the rank variables. A nil rank adds none, for
// programs that start their own ranks. If base has several entries with the same name, the last one counts. Entries
// that are not NAME=value are dropped.
func Environ(base []string, set map[string]*string, rank *RankVars) []string {
	return merge(base, isInherited, set, rank.values())
}

// Apply returns environ with the overrides applied, sorted by name.
func (s EnvOverrides) Apply(environ []string) []string { return merge(environ, anyName, s) }

func anyName(string) bool { return true }

// isInherited reports whether a process inherits a variable of an outer launcher's rank.
func isInherited(name string) bool { return !matches(launcherVars, name) || isUserSetting(name) }

// merge applies overrides, one after another, to the entries of base whose names are kept.
func merge(base []string, kept func(name string) bool, sets ...EnvOverrides) []string {
	vars := make(map[string]string, len(base))
	for _, entry := range base {
		// No program can look up an entry without a name.
		if name, _, ok := strings.Cut(entry, "="); ok && name != "" && kept(name) {
			vars[name] = entry
		}
	}
	for _, set := range sets {
		for name, value := range set {
			if value == nil {
				delete(vars, name)
			} else {
				vars[name] = name + "=" + *value
			}
		}
	}
	entries := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		entries = append(entries, vars[name])
	}
	return entries
}

// values returns the variables by name, or nil for a nil receiver.
func (r *RankVars) values() EnvOverrides {
	if r == nil {
		return nil
	}
	set := EnvOverrides{}
	for name, n := range map[string]int{"RANK": r.Rank, "WORLD_SIZE": r.WorldSize, "LOCAL_RANK": r.LocalRank,
		"LOCAL_WORLD_SIZE": r.LocalWorldSize, "MASTER_PORT": r.MasterPort} {
		text := strconv.Itoa(n)
		set[name] = &text
	}
	addr := cmp.Or(r.MasterAddr, "127.0.0.1")
	set["MASTER_ADDR"] = &addr
	return set
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, open := strings.CutSuffix(pattern, "*")
		return name == pattern || open && strings.HasPrefix(name, prefix)
	})
}
