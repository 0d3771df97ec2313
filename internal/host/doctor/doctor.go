// Package doctor reports which features of a machine kernbench can use: processor instructions, GPUs, process limits,
// network interfaces, launchers and C libraries. If something is missing, it reports the reason. It changes nothing.
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

// State is the result of a check.
type State string

const (
	Yes State = "yes"
	No  State = "no"
	Low State = "low" // available, but less than some benchmarks need
)

// Finding is one fact about the machine.
type Finding struct {
	Area   string `json:"area"`
	Name   string `json:"name"`
	State  State  `json:"state"`
	Detail string `json:"detail,omitempty"` // description, or the reason for No
}

// Machine gives access to the machine that is examined. [Local] returns this one; tests make others.
type Machine struct {
	Host hostinfo.Host
	Root fs.FS // file tree, laid out like /
	// LookPath searches for a program like a shell does.
	LookPath func(name string) (path string, err error)
	// Output runs a program and returns its output.
	Output func(path string, args ...string) (string, error)
	// Space returns the size of a file system and its free space, in bytes.
	Space func(path string) (size, free uint64, err error)
	// Limit returns a limit of this process; math.MaxUint64 means none.
	Limit func(l Limit) (uint64, error)
	// Open opens a library and returns its name, version and file.
	Open func(l dynlib.Spec) (string, error)
	// Interfaces lists the network interfaces.
	Interfaces func() ([]Interface, error)
	// GPUs lists the GPUs that processes may use.
	GPUs func() ([]GPU, error)
}

// Limit is a resource limit of a process.
type Limit int

const (
	LockedMemory Limit = iota // bytes
	OpenFiles
)

// Examine makes all checks.
func Examine(m Machine) []Finding {
	return slices.Concat(m.cpu(), m.gpus(), m.limits(), m.networks(), m.launchers(), m.libraries())
}

// Devices checks only GPUs and libraries.
func Devices(m Machine) []Finding { return slices.Concat(m.gpus(), m.libraries()) }

// instructions lists, by architecture, the instruction sets that kernels and measured libraries
// use.
var instructions = map[string][]struct{ name, use string }{
	"amd64": {
		{"AVX2", "reductions, copies, GEMM"}, {"FMA3", "GEMM"}, {"F16C", "half precision"},
		{"AVX512F", "wider reductions and GEMM"}, {"AVX512BF16", "bfloat16 products"}, {"AMXBF16", "bfloat16 tiles"},
		{"AMXINT8", "8-bit integer tiles"},
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

// cores describes how many cores are usable, and what limits them.
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
		why = append(why, fmt.Sprintf("the quota of the control group is %s", unit.FormatSig(c.Quota, 3)))
	}
	if len(why) == 0 {
		return text
	}
	return text + ": " + strings.Join(why, ", ")
}

const (
	// smallShm is the default of container engines, which is too small for the buffers of a
	// few ranks.
	smallShm = 64 << 20
	// smallLocked is less than the size of a single registered network or GPU buffer.
	smallLocked = 64 << 20
	// fewFiles is too small for a few hundred ranks on a node.
	fewFiles = 4096
)

func (m Machine) limits() []Finding {
	findings := []Finding{m.controlGroups(), m.memory()}
	shm := Finding{"limits", "/dev/shm", Yes, ""}
	switch total, free, err := m.Space("/dev/shm"); {
	case err != nil:
		shm.State, shm.Detail = No, err.Error()
	default:
		shm.Detail = fmt.Sprintf("%s, %s free", size(total), size(free))
		if free <= smallShm {
			shm.State = Low
			shm.Detail += "; containers get more with --shm-size=4g, pods with an emptyDir of medium Memory"
		}
	}
	return append(findings, shm,
		m.limit("locked memory", LockedMemory, smallLocked, size, "RDMA and pinned buffers need more: ulimit -l unlimited"),
		m.limit("open files", OpenFiles, fewFiles, func(n uint64) string { return fmt.Sprint(n) },
			"many ranks on a node need more: ulimit -n 65536"))
}

// memory describes how much memory this process may use.
func (m Machine) memory() Finding {
	switch h := m.Host; {
	case h.Memory == 0:
		return Finding{"limits", "memory", No, "unknown"}
	case h.MemoryMax > 0:
		return Finding{"limits", "memory", Yes,
			fmt.Sprintf("%s, limited to %s by the control group", size(uint64(h.Memory)), size(uint64(h.MemoryMax)))}
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

// controlGroups describes which versions are mounted and with which controllers.
func (m Machine) controlGroups() Finding {
	var versions, controllers []string
	for _, mount := range hostinfo.CgroupMounts(m.Root) {
		if mount.Version == 2 {
			versions = append(versions, "version 2")
			continue
		}
		controllers = append(controllers, lists.Filter(mount.Controllers, func(name string) bool {
			return name == "cpu" || name == "cpuset" || name == "memory"
		})...)
	}
	if slices.Sort(controllers); len(controllers) > 0 {
		versions = append(versions, "version 1 ("+strings.Join(slices.Compact(controllers), ", ")+")")
	}
	if len(versions) == 0 {
		return Finding{"limits", "control groups", No, "not mounted: limits of containers are not visible"}
	}
	slices.Sort(versions)
	return Finding{"limits", "control groups", Yes, strings.Join(slices.Compact(versions), " and ")}
}

// launcher is a program that starts ranks. Different launchers share program names, so the output
// of the version command must contain kind.
type launcher struct {
	name     string
	programs []string
	args     []string
	kind     string
	get      string // Debian package
}

var launchers = []launcher{
	{"Open MPI", []string{"mpirun.openmpi", "mpirun"}, []string{"--version"}, "Open MPI", "openmpi-bin"},
	{"MPICH (Hydra)", []string{"mpiexec.hydra", "mpiexec"}, []string{"--version"}, "HYDRA", "mpich"},
	{"Slurm", []string{"srun"}, []string{"--version"}, "slurm", "slurm-client"},
	{"torchrun", []string{"torchrun"}, nil, "", "python3-torch"},
	// Debian's package has no torchrun command, but it has the module that torchrun runs.
	{"torch.distributed", []string{"python3", "/usr/bin/python3"},
		[]string{"-c", "import importlib.metadata as m; print('torch', m.version('torch'))"}, "torch", "python3-torch"},
}

func (m Machine) launchers() []Finding {
	return lists.Map(launchers, func(l launcher) Finding { return m.launcher(l) })
}

func (m Machine) launcher(l launcher) Finding {
	why := "not on PATH"
	for _, program := range l.programs {
		path, err := m.LookPath(program)
		if err != nil {
			continue
		}
		if l.args == nil {
			return Finding{"launchers", l.name, Yes, path}
		}
		output, err := m.Output(path, l.args...)
		switch {
		case err != nil:
			why = fmt.Sprintf("%s: %v", path, err)
		case !strings.Contains(output, l.kind):
			first, _, _ := strings.Cut(output, "\n")
			why = fmt.Sprintf("%s is another program: %s", path, first)
		default:
			return Finding{"launchers", l.name, Yes, strings.TrimSuffix(path+": "+version(output), ": ")}
		}
	}
	return Finding{"launchers", l.name, No, why + " (Debian: " + l.get + ")"}
}

// number matches a version within a text.
var number = regexp.MustCompile(`\d+\.\d+[0-9A-Za-z.+~-]*`)

// version returns the first version in a text, or "".
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

// GPU describes a GPU.
type GPU struct {
	Name      string
	Bytes     uint64
	Compute   int // compute capability times ten: 90 is 9.0
	Mode      string
	Multicast bool
	Reaches   []int // numbers of the GPUs whose memory it can access
}

// daemonProgram starts the MPS daemon, which lets ranks share a GPU.
const daemonProgram = "nvidia-cuda-mps-control"

// gpus describes the GPUs and whether ranks can share one.
func (m Machine) gpus() []Finding {
	list, err := m.GPUs()
	if err != nil {
		return []Finding{{"gpu", "GPUs", No, firstLine(err.Error())}}
	}
	findings := []Finding{}
	for i, g := range list {
		detail := fmt.Sprintf("%s, %s, compute capability %d.%d, compute mode %s", g.Name, size(g.Bytes), g.Compute/10,
			g.Compute%10, g.Mode)
		if g.Multicast {
			detail += ", multicast"
		}
		if len(g.Reaches) > 0 {
			detail += fmt.Sprintf(", can access the memory of %s", strings.Trim(fmt.Sprint(g.Reaches), "[]"))
		}
		findings = append(findings, Finding{"gpu", fmt.Sprintf("GPU %d", i), Yes, detail})
	}
	path, err := m.LookPath(daemonProgram)
	if err != nil {
		return append(findings, Finding{"gpu", "MPS", No, "ranks cannot share a GPU: " + err.Error()})
	}
	return append(findings, Finding{"gpu", "MPS", Yes, path})
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// Interface is a network interface.
type Interface struct {
	Name      string
	Up        bool
	Addresses []string // with prefix length, such as 10.1.0.2/16
	Default   bool     // has the default route
}

// networks describes the interfaces and which one is used by default.
func (m Machine) networks() (findings []Finding) {
	all, err := m.Interfaces()
	if err != nil {
		return []Finding{{"network", "interfaces", No, err.Error()}}
	}
	for _, i := range all {
		f := Finding{"network", i.Name, Yes, strings.Join(i.Addresses, ", ")}
		switch {
		case !i.Up:
			f.State, f.Detail = No, "down"
		case len(i.Addresses) == 0:
			f.State, f.Detail = No, "no address"
		case i.Default:
			f.Detail += "; used by default, unless another interface is closer to the rendezvous or --interface names one"
		}
		findings = append(findings, f)
	}
	return findings
}
