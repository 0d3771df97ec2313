// Package hostinfo describes the conditions of a measurement, so that results can be compared:
// the machine (Host), the program (Build), how busy the machine was (Load), the environment
// variables that matter (RecordedEnv), and whether another kernbench is measuring on the same
// host (Claim).
//
// Facts about the machine are read from a file tree laid out like / on Linux, so that tests can
// pass their own. A fact that cannot be read is left out, never guessed. The callers decide
// whether the conditions were good enough and whether two results are comparable.
package hostinfo

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/klauspost/cpuid/v2"

	"github.com/kernbench/kernbench/internal/base/unit"
)

// Host is the description of a machine. Zero and empty fields are unknown.
type Host struct {
	Hostname   string `json:"hostname,omitempty"`
	OS         string `json:"os,omitempty"`     // name of the distribution
	Kernel     string `json:"kernel,omitempty"` // release, like uname -r
	Arch       string `json:"arch,omitempty"`   // like GOARCH
	CPU        CPU    `json:"cpu"`
	Memory     int64  `json:"memory_bytes,omitempty"`
	MemoryMax  int64  `json:"memory_max_bytes,omitempty"` // limit of the control groups, if it is lower
	NUMANodes  int    `json:"numa_nodes,omitempty"`
	Virtual    bool   `json:"virtual,omitempty"`    // runs under a hypervisor, as far as visible from inside
	Hypervisor string `json:"hypervisor,omitempty"` // its name, if known
	GPUs       string `json:"gpus,omitempty"`       // number and model: "8 x NVIDIA H200"
	GPUDriver  string `json:"gpu_driver,omitempty"` // maker and release: "NVIDIA 550.54.15"
	Build      Build  `json:"build"`
}

// Root returns the file tree of this machine.
func Root() fs.FS { return os.DirFS("/") }

// Local describes this machine and this program.
func Local() Host {
	host := Read(Root())
	host.Arch = runtime.GOARCH
	host.CPU.Features = cpuid.CPU.FeatureSet()
	if id := cpuid.CPU.HypervisorVendorID; id != cpuid.VendorUnknown {
		host.Virtual, host.Hypervisor = true, id.String()
	}
	host.Build = LocalBuild()
	return host
}

// Read describes the machine with the given file tree.
func Read(root fs.FS) Host {
	info := readCPUInfo(root)
	host := Host{
		Hostname:  line(root, "proc/sys/kernel/hostname"),
		OS:        osName(root),
		Kernel:    line(root, "proc/sys/kernel/osrelease"),
		CPU:       readCPU(root, info),
		Memory:    memory(root),
		NUMANodes: countCPUs(line(root, "sys/devices/system/node/online")), // the syntax is the same as for processors
	}
	if limit := MemoryLimit(root); limit < host.Memory {
		host.MemoryMax = limit
	}
	host.GPUs, host.GPUDriver = readGPUs(root)
	// On x86 a processor flag shows a hypervisor. Xen has a file on all architectures.
	host.Hypervisor = line(root, "sys/hypervisor/type")
	host.Virtual = host.Hypervisor != "" || info.hasFlag("hypervisor")
	return host
}

func osName(root fs.FS) string {
	for _, file := range []string{"etc/os-release", "usr/lib/os-release"} {
		for _, l := range lines(root, file) {
			if value, ok := strings.CutPrefix(l, "PRETTY_NAME="); ok {
				return strings.Trim(value, `"'`)
			}
		}
	}
	return ""
}

func memory(root fs.FS) int64 {
	for _, l := range lines(root, "proc/meminfo") {
		if value, ok := strings.CutPrefix(l, "MemTotal:"); ok {
			return int64(number(strings.TrimSuffix(value, "kB"))) * 1024
		}
	}
	return 0
}

// Summary describes the machine in one line.
func (h Host) Summary() string {
	var parts []string
	add := func(known bool, format string, args ...any) {
		if known {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(h.CPU.Model != "", "%s", h.CPU.Model)
	add(h.CPU.Cores > 0, "%s", unit.Plural(h.CPU.Cores, "core"))
	add(h.CPU.Threads > 0, "%s", unit.Plural(h.CPU.Threads, "thread"))
	add(h.CPU.Usable > 0 && h.CPU.Usable < float64(h.CPU.Threads), "%s usable", unit.FormatSig(h.CPU.Usable, 3))
	add(h.Memory > 0, "%sB memory", unit.FormatBytesApprox(float64(h.Memory)))
	add(h.MemoryMax > 0, "%sB of it usable", unit.FormatBytesApprox(float64(h.MemoryMax)))
	add(h.NUMANodes > 0, "%s", unit.Plural(h.NUMANodes, "NUMA node"))
	add(h.Kernel != "", "kernel %s", h.Kernel)
	add(h.Virtual, "%s", strings.TrimSpace("virtual "+h.Hypervisor))
	name := cmp.Or(h.Hostname, "unnamed host")
	return name + ": " + strings.Join(parts, ", ")
}

// Class returns a short hash that is equal for machines whose times are comparable: the same
// processor model, number of cores and usable processors, and about the same memory. Host name,
// kernel and build have no influence. The hash is stored with results and must not change.
func (h Host) Class() string {
	// Machines of the same kind differ slightly in the memory that firmware and kernel reserve.
	// Memory is therefore rounded to powers of √2. The usual sizes of 2^n and 3·2^n bytes are far
	// from the boundaries between them.
	step := math.Inf(-1)
	if h.Memory > 0 {
		step = math.Round(2 * math.Log2(float64(h.Memory)))
	}
	facts := fmt.Sprintf("%s|%s|%d|%d|%.2f|%v", h.Arch, h.CPU.Model, h.CPU.Threads, h.CPU.Cores, h.CPU.Usable, step)
	sum := sha256.Sum256([]byte(facts))
	return hex.EncodeToString(sum[:6])
}

//go:embed VERSION
var versionFile string

// Number returns the number of the next release, without a leading "v".
func Number() string { return strings.TrimSpace(versionFile) }

// Version is the release, which the linker sets
// (-ldflags "-X github.com/kernbench/kernbench/internal/host/hostinfo.Version=v1.2.3").
// It is empty in other builds, which use the version that the Go tool recorded.
var Version string

// modulePath is the module of kernbench, which may be a dependency of the running program.
const modulePath = "github.com/kernbench/kernbench"

// Build describes the program that measured.
type Build struct {
	Version   string `json:"version"`              // of kernbench; "devel" if unknown
	Program   string `json:"program,omitempty"`    // path of the main package
	Revision  string `json:"revision,omitempty"`   // commit that the program was built from
	Modified  bool   `json:"modified,omitempty"`   // there were uncommitted changes
	GoVersion string `json:"go_version"`           // compiler version
	GOARCH    string `json:"goarch"`               // target architecture
	ArchLevel string `json:"arch_level,omitempty"` // GOAMD64 or GOARM64, such as v3
}

// LocalBuild describes this program.
func LocalBuild() Build {
	info, _ := debug.ReadBuildInfo()
	return describe(info, Version)
}

// describe makes a Build from the information of the Go tool, which may be nil, and the linked version.
func describe(info *debug.BuildInfo, linked string) Build {
	build := Build{Version: linked, GoVersion: runtime.Version(), GOARCH: runtime.GOARCH}
	if info != nil {
		build.Program = info.Path
		if build.Version == "" {
			build.Version = moduleVersion(info)
		}
		for _, setting := range info.Settings {
			switch setting.Key {
			case "vcs.revision":
				build.Revision = setting.Value
			case "vcs.modified":
				build.Modified = setting.Value == "true"
			case "GOAMD64", "GOARM64":
				build.ArchLevel = setting.Value
			}
		}
	}
	build.Version = cmp.Or(build.Version, "devel")
	return build
}

// moduleVersion returns the version of kernbench, which is the main module or a dependency.
// It is "" for a local source tree.
func moduleVersion(info *debug.BuildInfo) string {
	for _, module := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if module.Path == modulePath && module.Version != "(devel)" && module.Replace == nil {
			return module.Version
		}
	}
	return ""
}

// String returns the build in one line: "kernbench v1.2.3 (1a2b3c4d, modified), go1.26.0 amd64 v3".
func (b Build) String() string {
	text := "kernbench " + b.Version
	if b.Revision != "" {
		text += " (" + b.Revision[:min(len(b.Revision), 12)]
		if b.Modified {
			text += ", modified"
		}
		text += ")"
	}
	return text + ", " + strings.TrimSpace(b.GoVersion+" "+b.GOARCH+" "+b.ArchLevel)
}
