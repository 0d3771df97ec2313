package hostinfo

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/unit"
)

// CPU describes the processors of a machine.
type CPU struct {
	Model   string `json:"model,omitempty"`
	Sockets int    `json:"sockets,omitempty"`
	Cores   int    `json:"cores,omitempty"`   // physical cores
	Threads int    `json:"threads,omitempty"` // online logical processors

	// The number of processors that this process may use is limited by its affinity, and by cpuset
	// and quota of its control groups. Usable is the smallest limit; a quota may be a
	// fraction.
	Affinity int     `json:"affinity_cpus,omitempty"`
	Cpuset   int     `json:"cpuset_cpus,omitempty"`
	Quota    float64 `json:"quota_cpus,omitempty"`
	Usable   float64 `json:"usable_cpus,omitempty"`

	// Sizes in bytes of the caches of the first processor, and the number of L3 caches of the machine.
	L1d int64 `json:"l1d_bytes,omitempty"`
	L2  int64 `json:"l2_bytes,omitempty"`
	L3  int64 `json:"l3_bytes,omitempty"`
	L3s int   `json:"l3_caches,omitempty"`

	Governor string   `json:"governor,omitempty"` // all governors in use, joined by commas
	MHz      float64  `json:"mhz,omitempty"`      // maximum frequency, or else the current one
	Features []string `json:"features,omitempty"`
}

// cpuDir has a folder for each processor.
const cpuDir = "sys/devices/system/cpu"

func readCPU(root fs.FS, info cpuInfo) CPU {
	cpu := CPU{
		Model:    info.model(),
		Threads:  cmp.Or(countCPUs(line(root, cpuDir+"/online")), info.processors),
		Sockets:  len(perCPU(root, "topology/physical_package_id")),
		Cores:    len(perCPU(root, "topology/thread_siblings_list")), // each core has one list
		Affinity: affinity(root),
		Cpuset:   cpuset(root),
		Quota:    cpuQuota(root),
		Governor: strings.Join(perCPU(root, "cpufreq/scaling_governor"), ","),
		// If cores differ (big and little), the first one counts, as for the caches.
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

// The levels of memory that [CPU.Level] tells apart.
const (
	L1     = "L1"
	L2     = "L2"
	L3     = "L3"
	Memory = "memory"
)

// Level returns the level of memory from which each of some processes on this machine works, if each uses so many
// bytes again and again: L1, L2 or L3 if the bytes fit, and Memory only if they are at least twice as many as all
// caches of the processes hold together, because a part of fewer bytes stays in a cache. It is "" if the sizes of the
// caches are not known.
func (c CPU) Level(bytes int64, processes int) string {
	cores := min(processes, max(1, c.Cores))
	perCore := bytes * int64(processes) / int64(cores)
	switch caches := int64(cores)*(c.L1d+c.L2) + c.L3*int64(max(1, c.L3s)); {
	case c.L1d == 0:
		return ""
	case perCore <= c.L1d:
		return L1
	case perCore <= c.L2:
		return L2
	case bytes*int64(processes) >= 2*caches:
		return Memory
	case c.L3 == 0:
		return L2
	}
	return L3
}

func (c *CPU) readCaches(root fs.FS) {
	indexes, _ := fs.Glob(root, cpuDir+"/cpu0/cache/index*") // a constant pattern is never malformed
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
			c.L3, c.L3s = size, len(perCPU(root, "cache/"+path.Base(dir)+"/shared_cpu_list"))
		}
	}
}

// perCPU returns the distinct contents of a file in the folders of all processors, sorted.
func perCPU(root fs.FS, file string) []string {
	files, _ := fs.Glob(root, path.Join(cpuDir, "cpu[0-9]*", file)) // a constant pattern is never malformed
	var values []string
	for _, name := range files {
		if value := line(root, name); value != "" {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// affinity returns the number of processors that this process may be scheduled on.
func affinity(root fs.FS) int {
	for _, l := range lines(root, "proc/self/status") {
		if list, ok := strings.CutPrefix(l, "Cpus_allowed_list:"); ok {
			return countCPUs(list)
		}
	}
	return 0
}

// cpuInfo is the content of /proc/cpuinfo: the fields of the first processor and the number of
// processors.
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

// model returns the name of the processor. The file has no names for Arm processors; the
// numbers of implementer and part identify them too.
func (c cpuInfo) model() string {
	if name := c.first["model name"]; name != "" {
		return strings.Join(strings.Fields(name), " ") // some names are padded with spaces
	}
	if part := c.first["CPU part"]; part != "" {
		return "Arm implementer " + c.first["CPU implementer"] + " part " + part
	}
	return ""
}

func (c cpuInfo) hasFlag(flag string) bool {
	return slices.Contains(strings.Fields(c.first["flags"]), flag)
}

// lines returns the lines of a file, or nil if it cannot be read.
func lines(root fs.FS, name string) []string {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimRight(string(text), "\n"), "\n")
}

// line returns the first line of a file, trimmed, or "".
func line(root fs.FS, name string) string {
	if all := lines(root, name); len(all) > 0 {
		return strings.TrimSpace(all[0])
	}
	return ""
}

// number parses a number. It returns 0 for other texts.
func number(text string) float64 {
	value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return 0
	}
	return value
}

// countCPUs returns the number of members of a list such as "0-3,8,10-11", which is the format
// of the kernel. It returns 0 for other texts.
func countCPUs(list string) int {
	total := 0
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		low, errLow := strconv.ParseUint(first, 10, 31)
		high, errHigh := strconv.ParseUint(last, 10, 31)
		if errLow != nil || errHigh != nil || high < low {
			return 0
		}
		total += int(high-low) + 1
	}
	return total
}
