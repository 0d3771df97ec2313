package hostinfo

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/unit"
)

// CPU is what is recorded of the processors.
type CPU struct {
	Model   string `json:"model,omitempty"`
	Sockets int    `json:"sockets,omitempty"`
	Cores   int    `json:"cores,omitempty"`   // physical cores
	Threads int    `json:"threads,omitempty"` // logical processors that are online

	// This process may not have all of them. Usable is the least of what affinity,
	// cpuset and quota leave; a quota may be a fraction.
	Affinity int     `json:"affinity_cpus,omitempty"`
	Cpuset   int     `json:"cpuset_cpus,omitempty"`
	Quota    float64 `json:"quota_cpus,omitempty"`
	Usable   float64 `json:"usable_cpus,omitempty"`

	// Sizes in bytes of one cache of each level, as the first processor sees it.
	L1d int64 `json:"l1d_bytes,omitempty"`
	L2  int64 `json:"l2_bytes,omitempty"`
	L3  int64 `json:"l3_bytes,omitempty"`

	Governor string   `json:"governor,omitempty"` // all that are in use, joined by commas
	MHz      float64  `json:"mhz,omitempty"`      // the highest allowed, else the one at the time of reading
	Features []string `json:"features,omitempty"`
}

// cpuDir holds one folder per processor.
const cpuDir = "sys/devices/system/cpu"

func readCPU(root fs.FS, info cpuInfo) CPU {
	cpu := CPU{
		Model:    info.model(),
		Threads:  cmp.Or(countCPUs(line(root, cpuDir+"/online")), info.processors),
		Sockets:  len(perCPU(root, "topology/physical_package_id")),
		Cores:    len(perCPU(root, "topology/thread_siblings_list")), // one list per core
		Affinity: affinity(root),
		Cpuset:   cpuset(root),
		Quota:    cpuQuota(root),
		Governor: strings.Join(perCPU(root, "cpufreq/scaling_governor"), ","),
		// Of different cores (big and little) the first one counts, as for the caches.
		MHz: cmp.Or(number(line(root, cpuDir+"/cpu0/cpufreq/scaling_max_freq"))/1000, number(info.first["cpu MHz"])),
	}
	for _, limit := range []float64{float64(cpu.Threads), float64(cpu.Affinity), float64(cpu.Cpuset), cpu.Quota} {
		if limit > 0 && (cpu.Usable == 0 || limit < cpu.Usable) {
			cpu.Usable = limit
		}
	}
	cpu.readCaches(root)
	return cpu
}

func (c *CPU) readCaches(root fs.FS) {
	indexes, _ := fs.Glob(root, cpuDir+"/cpu0/cache/index*") // the pattern is well formed
	for _, dir := range indexes {
		size, err := unit.ParseBytes(line(root, dir+"/size"))
		if err != nil {
			continue
		}
		switch line(root, dir+"/level") + line(root, dir+"/type") {
		case "1Data", "1Unified":
			c.L1d = size
		case "2Data", "2Unified":
			c.L2 = size
		case "3Data", "3Unified":
			c.L3 = size
		}
	}
}

// perCPU gives the distinct contents of a file that each processor's folder
// has, sorted.
func perCPU(root fs.FS, file string) []string {
	files, _ := fs.Glob(root, path.Join(cpuDir, "cpu[0-9]*", file)) // the pattern is well formed
	var values []string
	for _, name := range files {
		if value := line(root, name); value != "" {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// affinity counts the processors this process may be scheduled on.
func affinity(root fs.FS) int {
	for _, l := range lines(root, "proc/self/status") {
		if list, ok := strings.CutPrefix(l, "Cpus_allowed_list:"); ok {
			return countCPUs(list)
		}
	}
	return 0
}

// cpuInfo is /proc/cpuinfo: the fields of the first processor and how many
// processors there are.
type cpuInfo struct {
	first      map[string]string
	processors int
}

func readCPUInfo(root fs.FS) cpuInfo {
	info := cpuInfo{first: map[string]string{}}
	for _, l := range lines(root, "proc/cpuinfo") {
		name, value, _ := strings.Cut(l, ":")
		name = strings.TrimSpace(name)
		if name == "processor" {
			info.processors++
		}
		if _, known := info.first[name]; !known {
			info.first[name] = strings.TrimSpace(value)
		}
	}
	return info
}

// model is the processor's name. Arm processors have none here; their numbers
// tell them apart as well.
func (c cpuInfo) model() string {
	if name := c.first["model name"]; name != "" {
		return strings.Join(strings.Fields(name), " ") // some are padded
	}
	if part := c.first["CPU part"]; part != "" {
		return "Arm implementer " + c.first["CPU implementer"] + " part " + part
	}
	return ""
}

func (c cpuInfo) hasFlag(flag string) bool {
	return slices.Contains(strings.Fields(c.first["flags"]), flag)
}
