// Package doctor looks at what a machine offers kernbench: libraries that can
// be opened, launchers that can be started, instructions of the processor, and
// the limits under which a process runs here. It says what is available, or why
// not; it changes nothing, and nothing else depends on it.
package doctor

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// State is the short form of a finding.
type State string

const (
	Yes State = "yes"
	No  State = "no"
	Low State = "low" // there, but less than some benchmarks need
)

// Finding is one fact about the machine.
type Finding struct {
	Area   string `json:"area"`
	Name   string `json:"name"`
	State  State  `json:"state"`
	Detail string `json:"detail,omitempty"` // what it is, or why not
}

// Machine is what is examined; [Local] is this one.
type Machine struct {
	Host hostinfo.Host
	Root fs.FS // its files
	// Find looks for a program as a shell does.
	Find func(name string) (path string, err error)
	// Say runs a program and returns its output.
	Say func(path string, args ...string) (string, error)
	// Space gives the size of a file system and how much of it is free.
	Space func(path string) (size, free uint64, err error)
	// Limit gives a limit of this process; math.MaxUint64 is none.
	Limit func(l Limit) (uint64, error)
	// Open opens a library and gives what it says of itself.
	Open func(l dynlib.Spec) (string, error)
	// Interfaces lists the network interfaces.
	Interfaces func() ([]Interface, error)
	// GPUs lists those that processes here may use.
	GPUs func() ([]GPU, error)
}

// Limit is a limit of the process.
type Limit int

const (
	LockedMemory Limit = iota // bytes
	OpenFiles
)

// Examine looks at everything.
func Examine(m Machine) []Finding {
	return slices.Concat(m.cpu(), m.gpus(), m.limits(), m.networks(), m.launchers(), m.libraries())
}

// Devices looks only at what computes beside the processor: GPUs, and the libraries.
func Devices(m Machine) []Finding { return slices.Concat(m.gpus(), m.libraries()) }

// instructions are those that code paths here, or in the libraries measured,
// depend on, by architecture.
var instructions = map[string][]struct{ name, use string }{
	"amd64": {
		{"AVX2", "reductions, copies, GEMM"}, {"FMA3", "GEMM"}, {"F16C", "half precision"},
		{"AVX512F", "wider reductions and GEMM"}, {"AVX512BF16", "bfloat16 products"}, {"AMXBF16", "bfloat16 tiles"},
	},
	"arm64": {
		{"ASIMD", "reductions, copies, GEMM"}, {"ASIMDHP", "half precision"}, {"ASIMDDP", "integer products"},
		{"SVE", "wider vectors"},
	},
}

func (m Machine) cpu() []Finding {
	c := m.Host.CPU
	findings := []Finding{
		{"cpu", "processor", Yes, cmp.Or(c.Model, "unknown")},
		{"cpu", "cores", Yes, m.cores()},
	}
	for _, i := range instructions[m.Host.Arch] {
		f := Finding{"cpu", i.name, No, i.use}
		if slices.Contains(c.Features, i.name) {
			f.State = Yes
		}
		findings = append(findings, f)
	}
	return findings
}

// cores says how many may be used, and what limits them.
func (m Machine) cores() string {
	c := m.Host.CPU
	if c.Threads == 0 {
		return "unknown"
	}
	text := fmt.Sprintf("%s of %d usable", unit.FormatSig(c.Usable, 3), c.Threads)
	var why []string
	if c.Affinity > 0 && c.Affinity < c.Threads {
		why = append(why, fmt.Sprintf("this process is bound to %d", c.Affinity))
	}
	if c.Cpuset > 0 && c.Cpuset < c.Threads {
		why = append(why, fmt.Sprintf("the control group has %d", c.Cpuset))
	}
	if c.Quota > 0 {
		why = append(why, fmt.Sprintf("the control group's quota is the time of %s", unit.FormatSig(c.Quota, 3)))
	}
	if len(why) == 0 {
		return text
	}
	return text + ": " + strings.Join(why, ", ")
}

const (
	// littleShm is what container engines give by default, too little for the
	// buffers of a few ranks.
	littleShm = 64 << 20
	// littleLocked is below what one registered network or GPU buffer takes.
	littleLocked = 64 << 20
	// littleFiles is below what some hundred ranks on a node need.
	littleFiles = 4096
)

func (m Machine) limits() []Finding {
	findings := []Finding{m.controlGroups(), m.memory()}
	shm := Finding{"limits", "/dev/shm", Yes, ""}
	switch total, free, err := m.Space("/dev/shm"); {
	case err != nil:
		shm.State, shm.Detail = No, err.Error()
	default:
		shm.Detail = fmt.Sprintf("%s, %s free", size(total), size(free))
		if free <= littleShm {
			shm.State = Low
			shm.Detail += "; containers get more with --shm-size=4g, pods with an emptyDir of medium Memory"
		}
	}
	return append(findings, shm,
		m.limit("locked memory", LockedMemory, littleLocked, size, "RDMA and pinned buffers need more: ulimit -l unlimited"),
		m.limit("open files", OpenFiles, littleFiles, func(n uint64) string { return fmt.Sprint(n) },
			"many ranks on a node need more: ulimit -n 65536"))
}

// memory says how much of it this process may use.
func (m Machine) memory() Finding {
	switch h := m.Host; {
	case h.Memory == 0:
		return Finding{"limits", "memory", No, "unknown"}
	case h.MemoryMax > 0:
		return Finding{"limits", "memory", Yes,
			fmt.Sprintf("%s, of which the control group grants %s", size(uint64(h.Memory)), size(uint64(h.MemoryMax)))}
	default:
		return Finding{"limits", "memory", Yes, size(uint64(h.Memory)) + ", no limit"}
	}
}

func (m Machine) limit(name string, l Limit, little uint64, format func(uint64) string, advice string) Finding {
	n, err := m.Limit(l)
	switch {
	case err != nil:
		return Finding{"limits", name, No, err.Error()}
	case n == math.MaxUint64:
		return Finding{"limits", name, Yes, "unlimited"}
	case n < little:
		return Finding{"limits", name, Low, format(n) + "; " + advice}
	}
	return Finding{"limits", name, Yes, format(n)}
}

// controlGroups says which versions are mounted and with which controllers.
func (m Machine) controlGroups() Finding {
	f := Finding{"limits", "control groups", Yes, ""}
	text, err := fs.ReadFile(m.Root, "proc/self/mountinfo")
	if err != nil {
		return Finding{"limits", "control groups", No, err.Error()}
	}
	var one []string
	two := false
	for line := range strings.Lines(string(text)) {
		_, kind, _ := strings.Cut(line, " - ")
		switch fields := strings.Fields(kind); {
		case len(fields) < 3:
		case fields[0] == "cgroup2":
			two = true
		case fields[0] == "cgroup":
			for option := range strings.SplitSeq(fields[2], ",") {
				if option == "cpu" || option == "cpuset" || option == "memory" {
					one = append(one, option)
				}
			}
		}
	}
	slices.Sort(one)
	switch {
	case len(one) > 0 && two:
		f.Detail = "version 1 (" + strings.Join(slices.Compact(one), ", ") + ") and version 2"
	case len(one) > 0:
		f.Detail = "version 1 (" + strings.Join(slices.Compact(one), ", ") + ")"
	case two:
		f.Detail = "version 2"
	default:
		f.State, f.Detail = No, "not mounted: limits set from outside are not visible"
	}
	return f
}

// launcher is a program that starts ranks; kind recognises it among programs of
// the same name by what it says of its version.
type launcher struct {
	name     string
	programs []string
	args     []string
	kind     string
	get      string // Debian's package
}

var launchers = []launcher{
	{"Open MPI", []string{"mpirun.openmpi", "mpirun"}, []string{"--version"}, "Open MPI", "openmpi-bin"},
	{"MPICH (Hydra)", []string{"mpiexec.hydra", "mpiexec"}, []string{"--version"}, "HYDRA", "mpich"},
	{"Slurm", []string{"srun"}, []string{"--version"}, "slurm", "slurm-client"},
	{"torchrun", []string{"torchrun"}, nil, "", "python3-torch"},
	// Debian's package brings no torchrun, but the module behind it.
	{"torch.distributed", []string{"python3", "/usr/bin/python3"},
		[]string{"-c", "import importlib.metadata as m; print('torch', m.version('torch'))"}, "torch", "python3-torch"},
}

func (m Machine) launchers() []Finding {
	return lists.Map(launchers, func(l launcher) Finding { return m.launcher(l) })
}

func (m Machine) launcher(l launcher) Finding {
	why := "not on PATH"
	for _, program := range l.programs {
		path, err := m.Find(program)
		if err != nil {
			continue
		}
		if l.args == nil {
			return Finding{"launchers", l.name, Yes, path}
		}
		said, err := m.Say(path, l.args...)
		switch {
		case err != nil:
			why = fmt.Sprintf("%s: %v", path, err)
		case !strings.Contains(said, l.kind):
			first, _, _ := strings.Cut(said, "\n")
			why = fmt.Sprintf("%s is another program: %s", path, first)
		default:
			return Finding{"launchers", l.name, Yes, strings.TrimSuffix(path+": "+version(said), ": ")}
		}
	}
	return Finding{"launchers", l.name, No, why + " (Debian: " + l.get + ")"}
}

// number is what a version looks like, whatever the text around it.
var number = regexp.MustCompile(`\d+\.\d+[0-9A-Za-z.+~-]*`)

// version finds the first one in a text.
func version(text string) string { return number.FindString(text) }

func (m Machine) libraries() (findings []Finding) {
	for _, l := range Libraries() {
		f := Finding{"libraries", l.Name, Yes, ""}
		said, err := m.Open(l)
		if f.Detail = said; err != nil {
			f.State, f.Detail = No, strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		findings = append(findings, f)
	}
	return findings
}

func size(n uint64) string { return unit.FormatBytesApprox(float64(n)) + "B" }
