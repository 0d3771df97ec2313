// Package hostinfo says on what machine, by which build and under which load
// something was measured, so that two results can be told apart or compared: the
// facts of the host (Host), of the program (Build), of the time (Load), the part of
// the environment worth keeping (RecordedEnv), and whether another kernbench measures
// here at the same time (Claim).
//
// Facts about the machine are read from a file tree laid out like / on Linux,
// so that tests bring their own. A fact that cannot be found is left out; none is
// guessed. The package judges nothing: what makes a run unfit or two runs
// incomparable is for its callers to say.
package hostinfo

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime"
	"strings"

	"github.com/klauspost/cpuid/v2"

	"github.com/kernbench/kernbench/internal/base/unit"
)

// Host is what is recorded of a machine. Zero and empty fields are unknown.
type Host struct {
	Hostname   string `json:"hostname,omitempty"`
	OS         string `json:"os,omitempty"`     // the name that the distribution gives itself
	Kernel     string `json:"kernel,omitempty"` // the release, as uname -r
	Arch       string `json:"arch,omitempty"`   // as GOARCH
	CPU        CPU    `json:"cpu"`
	Memory     int64  `json:"memory_bytes,omitempty"`
	MemoryMax  int64  `json:"memory_max_bytes,omitempty"` // that the control groups leave of it, where that is less
	NUMANodes  int    `json:"numa_nodes,omitempty"`
	Virtual    bool   `json:"virtual,omitempty"`    // under a hypervisor, as far as can be seen from inside
	Hypervisor string `json:"hypervisor,omitempty"` // which one, when it says
	Build      Build  `json:"build"`
}

// Root is the file tree of this machine.
func Root() fs.FS { return os.DirFS("/") }

// Local gives the facts of this machine and this program.
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

// Read gives the facts of the machine whose files are under root.
func Read(root fs.FS) Host {
	info := readCPUInfo(root)
	host := Host{
		Hostname:  line(root, "proc/sys/kernel/hostname"),
		OS:        osName(root),
		Kernel:    line(root, "proc/sys/kernel/osrelease"),
		CPU:       readCPU(root, info),
		Memory:    memory(root),
		NUMANodes: countCPUs(line(root, "sys/devices/system/node/online")), // same list syntax
	}
	if limit := memoryLimit(root); limit < host.Memory {
		host.MemoryMax = limit
	}
	// x86 has a flag for it; Xen tells elsewhere, on every architecture.
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

// Summary is the machine in one line, for the head of a report.
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

// Class is a short hash that is equal for machines similar enough for their times
// to be comparable: same processor, same cores of which as many may be used, about
// the same memory. Names, kernels and builds do not enter.
func (h Host) Class() string {
	// Similar machines differ by the little that firmware and kernel keep for
	// themselves, so memory counts in steps of a factor √2: wide enough for
	// that, and neither 2^n nor 3·2^n bytes is near a border.
	step := math.Inf(-1)
	if h.Memory > 0 {
		step = math.Round(2 * math.Log2(float64(h.Memory)))
	}
	facts := fmt.Sprintf("%s|%s|%d|%d|%.2f|%v", h.Arch, h.CPU.Model, h.CPU.Threads, h.CPU.Cores, h.CPU.Usable, step)
	sum := sha256.Sum256([]byte(facts))
	return hex.EncodeToString(sum[:6])
}
