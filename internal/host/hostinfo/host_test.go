package hostinfo

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/must"
)

// tree makes a file tree of paths and contents.
func tree(files map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

// server is a two-socket machine with two threads to a core, four of its eight
// processors allowed by affinity, three by a quota two groups up.
var server = map[string]string{
	"proc/sys/kernel/hostname":  "node17\n",
	"proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
	"etc/os-release":            "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n",
	"proc/meminfo":              "MemTotal:       65536000 kB\nMemFree:        60000000 kB\n",
	"proc/cpuinfo": "processor\t: 0\nmodel name\t: Intel(R)  Xeon(R)   Gold 6338\ncpu MHz\t\t: 2000.000\nflags\t\t: " +
		"fpu avx2 hypervisor\n\n" +
		"processor\t: 1\nmodel name\t: another\ncpu MHz\t\t: 800.000\nflags\t\t: fpu\n",
	"proc/self/status":    "Name:\tcat\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\n",
	"proc/self/cgroup":    "0::/job/step/task\n",
	"proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\nmalformed\n",

	"sys/fs/cgroup/job/cpu.max":                      "300000 100000\n",
	"sys/fs/cgroup/job/step/cpu.max":                 "max 100000\n",
	"sys/fs/cgroup/job/step/task/cpu.max":            "700000 100000\n",
	"sys/fs/cgroup/job/cpuset.cpus.effective":        "0-5\n",
	"sys/fs/cgroup/cpuset.cpus.effective":            "0-7\n",
	"sys/devices/system/node/online":                 "0-1\n",
	"sys/devices/system/cpu/online":                  "0-7\n",
	"sys/devices/system/cpu/cpufreq/boost":           "1\n",
	"sys/devices/system/cpu/cpu0/cache/index0/level": "1\n", "sys/devices/system/cpu/cpu0/cache/index0/type": "Data\n",
	"sys/devices/system/cpu/cpu0/cache/index0/size":  "48K\n",
	"sys/devices/system/cpu/cpu0/cache/index1/level": "1\n",
	"sys/devices/system/cpu/cpu0/cache/index1/type":  "Instruction\n",
	"sys/devices/system/cpu/cpu0/cache/index1/size":  "32K\n",
	"sys/devices/system/cpu/cpu0/cache/index2/level": "2\n", "sys/devices/system/cpu/cpu0/cache/index2/type": "Unified\n",
	"sys/devices/system/cpu/cpu0/cache/index2/size":  "1280K\n",
	"sys/devices/system/cpu/cpu0/cache/index3/level": "3\n", "sys/devices/system/cpu/cpu0/cache/index3/type": "Unified\n",
	"sys/devices/system/cpu/cpu0/cache/index3/size":        "49152K\n",
	"sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq": "3200000\n",
}

func serverTree() fstest.MapFS {
	root := tree(server)
	for i, processor := range []struct{ socket, siblings, governor string }{
		{"0", "0,4", "performance"}, {"0", "1,5", "performance"}, {"1", "2,6", "performance"}, {"1", "3,7", "powersave"},
		{"0", "0,4", "performance"}, {"0", "1,5", "performance"}, {"1", "2,6", "performance"}, {"1", "3,7", "performance"},
	} {
		dir := "sys/devices/system/cpu/cpu" + string(rune('0'+i))
		root[dir+"/topology/physical_package_id"] = &fstest.MapFile{Data: []byte(processor.socket + "\n")}
		root[dir+"/topology/thread_siblings_list"] = &fstest.MapFile{Data: []byte(processor.siblings + "\n")}
		root[dir+"/cache/index3/shared_cpu_list"] = &fstest.MapFile{Data: []byte(strings.Repeat(processor.socket, 2) + "\n")}
		root[dir+"/cpufreq/scaling_governor"] = &fstest.MapFile{Data: []byte(processor.governor + "\n")}
	}
	return root
}

func TestRead(t *testing.T) {
	want := Host{
		Hostname: "node17", OS: "Debian GNU/Linux 12 (bookworm)", Kernel: "6.1.0-18-amd64",
		CPU: CPU{
			Model: "Intel(R) Xeon(R) Gold 6338", Sockets: 2, Cores: 4, Threads: 8,
			Affinity: 4, Cpuset: 6, Quota: 3, Usable: 3,
			L1d: 48 << 10, L2: 1280 << 10, L3: 48 << 20, L3s: 2,
			Governor: "performance,powersave", MHz: 3200,
		},
		Memory: 65536000 * 1024, NUMANodes: 2, Virtual: true,
	}
	if diff := cmp.Diff(want, Read(serverTree())); diff != "" {
		t.Errorf("want (-) and got (+):\n%s", diff)
	}
}

// TestReadNothing reads an empty file tree: all fields are unknown.
func TestReadNothing(t *testing.T) {
	if diff := cmp.Diff(Host{}, Read(fstest.MapFS{})); diff != "" {
		t.Errorf("facts out of nowhere:\n%s", diff)
	}
}

func TestReadArm(t *testing.T) {
	host := Read(tree(map[string]string{
		"proc/cpuinfo": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n\nprocessor\t: 1\nCPU " +
			"implementer\t: 0x41\nCPU part\t: 0xd40\n",
		"sys/hypervisor/type": "xen\n",
		"usr/lib/os-release":  "PRETTY_NAME='Alpine'\n",
	}))
	want := Host{
		OS: "Alpine", Virtual: true, Hypervisor: "xen",
		CPU: CPU{Model: "Arm implementer 0x41 part 0xd40", Threads: 2, Usable: 2},
	}
	if diff := cmp.Diff(want, host); diff != "" {
		t.Errorf("want (-) and got (+):\n%s", diff)
	}
}

// TestReadMemory checks that a limit counts only if it is below the memory of the machine.
func TestReadMemory(t *testing.T) {
	for limit, want := range map[string]int64{"1073741824": 1 << 30, "1099511627776": 0, "max": 0} {
		host := Read(tree(map[string]string{
			"proc/meminfo":             "MemTotal:       8388608 kB\n",
			"proc/self/mountinfo":      mountV2,
			"proc/self/cgroup":         "0::/\n",
			"sys/fs/cgroup/memory.max": limit + "\n",
		}))
		if host.Memory != 8<<30 || host.MemoryMax != want {
			t.Errorf("limit %s: %d bytes of %d, want %d", limit, host.MemoryMax, host.Memory, want)
		}
	}
}

// TestLocal checks facts that every machine has.
func TestLocal(t *testing.T) {
	host := Local()
	if host.Hostname == "" || host.Kernel == "" || host.Memory <= 0 || host.CPU.Threads < 1 || host.CPU.Usable <= 0 {
		t.Errorf("facts are missing: %+v", host)
	}
	if host.Arch != runtime.GOARCH || host.Build.GoVersion != runtime.Version() || host.Build.Version == "" {
		t.Errorf("the program's facts are wrong: %+v", host.Build)
	}
	if runtime.GOARCH == "amd64" && !slices.Contains(host.CPU.Features, "SSE2") {
		t.Errorf("an amd64 processor without SSE2: %v", host.CPU.Features)
	}
}

func TestSummary(t *testing.T) {
	tests := []struct {
		host Host
		want string
	}{
		{Read(serverTree()), "node17: Intel(R) Xeon(R) Gold 6338, 4 cores, 8 threads, 3 usable, 62.5GiB memory, 2 NUMA " +
			"nodes, kernel 6.1.0-18-amd64, virtual"},
		{Host{Hostname: "pi", CPU: CPU{Cores: 1, Threads: 1, Usable: 1}, NUMANodes: 1, Virtual: true, Hypervisor: "KVM"},
			"pi: 1 core, 1 thread, 1 NUMA node, virtual KVM"},
		{Host{Memory: 1 << 30}, "unnamed host: 1GiB memory"},
		{Host{Memory: 4 << 30, MemoryMax: 1 << 30}, "unnamed host: 4GiB memory, 1GiB of it usable"},
	}
	for _, tt := range tests {
		if got := tt.host.Summary(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// TestLevel finds the level of memory of working sets, with all caches of the processes together. A process that has a
// core of its own has its caches too.
func TestLevel(t *testing.T) {
	server := CPU{Cores: 4, L1d: 32 << 10, L2: 1 << 20, L3: 36 << 20, L3s: 1}
	two := server
	two.L3s = 2
	for _, c := range []struct {
		cpu       CPU
		bytes     int64
		processes int
		want      string
	}{
		{server, 32 << 10, 1, L1}, {server, 32 << 10, 4, L1}, {server, 32 << 10, 8, L2}, {server, 1 << 20, 4, L2},
		{server, 16 << 20, 1, L3}, {server, 64 << 20, 1, L3}, {server, 75 << 20, 1, Memory}, {server, 16 << 20, 4, L3},
		{server, 24 << 20, 4, Memory}, {two, 24 << 20, 4, L3}, {two, 64 << 20, 4, Memory}, {CPU{Cores: 4}, 1 << 30, 1, ""},
		{CPU{L1d: 32 << 10, L2: 1 << 20}, 1 << 20, 1, L2}, {CPU{L1d: 32 << 10, L2: 1 << 20}, 2 << 20, 1, L2},
		{CPU{L1d: 32 << 10, L2: 1 << 20}, 4 << 20, 1, Memory},
	} {
		if got := c.cpu.Level(c.bytes, c.processes); got != c.want {
			t.Errorf("%d processes with %d bytes each on %+v: %q, want %q", c.processes, c.bytes, c.cpu, got, c.want)
		}
	}
}

func TestClass(t *testing.T) {
	base := Read(serverTree())
	base.Arch = "amd64"
	changed := func(change func(*Host)) string {
		h := base
		change(&h)
		return h.Class()
	}
	// The hash is stored with results, so it must not change between versions.
	if got, want := base.Class(), "133fcafcad95"; got != want {
		t.Errorf("Class() = %s, want %s", got, want)
	}
	for name, class := range map[string]string{
		"hostname":     changed(func(h *Host) { h.Hostname = "node18" }),
		"kernel":       changed(func(h *Host) { h.Kernel = "6.1.0-19-amd64" }),
		"build":        changed(func(h *Host) { h.Build.Version = "v9" }),
		"a little RAM": changed(func(h *Host) { h.Memory -= 300 << 20 }),
		"frequency":    changed(func(h *Host) { h.CPU.MHz = 2000 }),
	} {
		if class != base.Class() {
			t.Errorf("%s makes it another class", name)
		}
	}
	for name, class := range map[string]string{
		"architecture": changed(func(h *Host) { h.Arch = "arm64" }),
		"model":        changed(func(h *Host) { h.CPU.Model = "other" }),
		"threads":      changed(func(h *Host) { h.CPU.Threads = 4 }),
		"cores":        changed(func(h *Host) { h.CPU.Cores = 8 }),
		"usable":       changed(func(h *Host) { h.CPU.Usable = 2.5 }),
		"twice RAM":    changed(func(h *Host) { h.Memory *= 2 }),
		"no RAM":       changed(func(h *Host) { h.Memory = 0 }),
	} {
		if class == base.Class() {
			t.Errorf("%s does not make it another class", name)
		}
	}
}

// TestClassMemorySteps checks that a size and up to 6 % less belong to the same class.
func TestClassMemorySteps(t *testing.T) {
	for _, gib := range []int64{2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536} {
		full := Host{Memory: gib << 30}
		for _, percent := range []int64{1, 3, 6} {
			if less := (Host{Memory: full.Memory * (100 - percent) / 100}); less.Class() != full.Class() {
				t.Errorf("%d GiB and %d%% less are different classes", gib, percent)
			}
		}
	}
}

// TestHostSurvivesJSON checks that JSON keeps everything, because views compare stored hosts.
func TestHostSurvivesJSON(t *testing.T) {
	host := Local()
	text := must.Get(json.Marshal(host))(t)
	var back Host
	must.Do(t, json.Unmarshal(text, &back))
	if diff := cmp.Diff(host, back); diff != "" {
		t.Errorf("lost on the way (-):\n%s", diff)
	}
	if back.Class() != host.Class() {
		t.Error("the class changed")
	}
	for _, name := range []string{`"hostname"`, `"memory_bytes"`, `"usable_cpus"`, `"go_version"`} {
		if !strings.Contains(string(text), name) {
			t.Errorf("no %s in %s", name, text)
		}
	}
}

func TestCountCPUs(t *testing.T) {
	tests := map[string]int{
		"0": 1, "0-3": 4, "0-3,8,10-11\n": 7, " 5 ": 1,
		"": 0, "x": 0, "3-1": 0, "1-": 0, "-1": 0, "0,,1": 0, "0-99999999999": 0,
	}
	for list, want := range tests {
		if got := countCPUs(list); got != want {
			t.Errorf("countCPUs(%q) = %d, want %d", list, got, want)
		}
	}
}

func TestDescribe(t *testing.T) {
	vcs := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"},
		{Key: "GOAMD64", Value: "v3"}, {Key: "CGO_ENABLED", Value: "0"},
	}
	own := func(version string) debug.Module { return debug.Module{Path: modulePath, Version: version} }
	tests := []struct {
		name   string
		info   *debug.BuildInfo
		linked string
		want   Build
	}{
		{"no information", nil, "", Build{Version: "devel"}},
		{"linked only", nil, "v1.2.3", Build{Version: "v1.2.3"}},
		{"a local tree", &debug.BuildInfo{Path: modulePath + "/cmd/kernbench", Main: own("(devel)"), Settings: vcs}, "",
			Build{Version: "devel", Program: modulePath + "/cmd/kernbench", Revision: "0123456789abcdef0123", Modified: true,
				ArchLevel: "v3"}},
		{"installed by version", &debug.BuildInfo{Main: own("v0.9.0")}, "", Build{Version: "v0.9.0"}},
		{"linking wins", &debug.BuildInfo{Main: own("v0.9.0")}, "v1.0.0", Build{Version: "v1.0.0"}},
		{"a user's program", &debug.BuildInfo{Path: "example.org/mine",
			Main: debug.Module{Path: "example.org/mine", Version: "v7.0.0"},
			Deps: []*debug.Module{{Path: "example.org/other", Version: "v3.0.0"}, {Path: modulePath, Version: "v0.8.0"}}}, "",
			Build{Version: "v0.8.0", Program: "example.org/mine"}},
		{"a user's program on a local tree", &debug.BuildInfo{Main: debug.Module{Path: "example.org/mine"},
			Deps: []*debug.Module{{Path: modulePath, Version: "v0.0.0", Replace: &debug.Module{Path: "../kernbench"}}}}, "",
			Build{Version: "devel"}},
	}
	for _, tt := range tests {
		tt.want.GoVersion, tt.want.GOARCH = runtime.Version(), runtime.GOARCH
		if diff := cmp.Diff(tt.want, describe(tt.info, tt.linked)); diff != "" {
			t.Errorf("%s: want (-) and got (+):\n%s", tt.name, diff)
		}
	}
}

func TestBuildString(t *testing.T) {
	tests := []struct {
		build Build
		want  string
	}{
		{Build{Version: "devel", GoVersion: "go1.26.0", GOARCH: "arm64"}, "kernbench devel, go1.26.0 arm64"},
		{Build{Version: "v1.2.3", Revision: "0123456789abcdef0123", Modified: true, GoVersion: "go1.26.0", GOARCH: "amd64",
			ArchLevel: "v3"},
			"kernbench v1.2.3 (0123456789ab, modified), go1.26.0 amd64 v3"},
		{Build{Version: "v1.2.3", Revision: "0123", GoVersion: "go1.26.0"}, "kernbench v1.2.3 (0123), go1.26.0"},
	}
	for _, tt := range tests {
		if got := tt.build.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestGPUs(t *testing.T) {
	root := tree(map[string]string{
		"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build\n" +
			"GCC version:  gcc version 12.2.0\n",
		"proc/driver/nvidia/gpus/0000:0f:00.0/information": "Model: \t\t NVIDIA H200\nIRQ:   \t\t 95\n",
		"proc/driver/nvidia/gpus/0000:1f:00.0/information": "Model: \t\t NVIDIA H200\n",
		"proc/driver/nvidia/gpus/0000:2f:00.0/information": "Model: \t\t NVIDIA L4\n",
	})
	if h := Read(root); h.GPUs != "2 x NVIDIA H200, 1 x NVIDIA L4" || h.GPUDriver != "NVIDIA 550.54.15" {
		t.Errorf("GPUs %q, driver %q", h.GPUs, h.GPUDriver)
	}
	closed := tree(map[string]string{
		"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\n"})
	if h := Read(closed); h.GPUs != "" || h.GPUDriver != "NVIDIA 535.104.05" {
		t.Errorf("GPUs %q, driver %q", h.GPUs, h.GPUDriver)
	}
	if h := Read(tree(nil)); h.GPUs != "" || h.GPUDriver != "" {
		t.Errorf("without a driver: %+v", h)
	}
}
