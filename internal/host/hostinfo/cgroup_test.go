package hostinfo

import (
	"testing"
	"testing/fstest"
)

const (
	mountV2     = "31 23 0:28 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n"
	mountV1     = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
	mountV1Set  = "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
	mountHybrid = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)

func TestControlGroups(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		quota float64
		set   int
		bytes int64
	}{
		{name: "nothing mounted", files: map[string]string{"proc/self/cgroup": "0::/\n"}},
		{
			name: "v2, no limit",
			files: map[string]string{
				"proc/self/mountinfo": mountV2, "proc/self/cgroup": "0::/a\n",
				"sys/fs/cgroup/a/cpu.max": "max 100000\n", "sys/fs/cgroup/a/cpuset.cpus.effective": "0-15\n",
				"sys/fs/cgroup/a/memory.max": "max\n",
			},
			set: 16,
		},
		{
			name: "v2, fraction, in a namespace of its own",
			files: map[string]string{
				"proc/self/mountinfo": mountV2, "proc/self/cgroup": "0::/\n",
				"sys/fs/cgroup/cpu.max": "150000 100000\n", "sys/fs/cgroup/cpuset.cpus.effective": "2,4\n",
			},
			quota: 1.5, set: 2,
		},
		{
			name: "v2, an ancestor is the tightest, the controller ends above",
			files: map[string]string{
				"proc/self/mountinfo": mountV2, "proc/self/cgroup": "0::/a/b/c\n",
				"sys/fs/cgroup/a/cpu.max": "200000 100000\n", "sys/fs/cgroup/a/b/cpu.max": "400000 100000\n",
				"sys/fs/cgroup/a/b/cpuset.cpus.effective": "0-2\n", "sys/fs/cgroup/cpuset.cpus.effective": "0-7\n",
				"sys/fs/cgroup/a/b/memory.max": "2147483648\n", "sys/fs/cgroup/a/memory.max": "1073741824\n",
				"sys/fs/cgroup/a/b/c/memory.max": "max\n",
			},
			quota: 2, set: 3, bytes: 1 << 30,
		},
		{
			name: "v1",
			files: map[string]string{
				"proc/self/mountinfo": mountV1 + mountV1Set, "proc/self/cgroup": "3:cpuset:/s\n2:cpu,cpuacct:/q\n",
				"sys/fs/cgroup/cpu,cpuacct/q/cpu.cfs_quota_us":  "250000\n",
				"sys/fs/cgroup/cpu,cpuacct/q/cpu.cfs_period_us": "100000\n",
				"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":    "-1\n", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
				"sys/fs/cgroup/cpuset/s/cpuset.cpus": "0-3\n", "sys/fs/cgroup/cpuset/s/cpuset.effective_cpus": "0-1\n",
			},
			quota: 2.5, set: 2,
		},
		{
			name: "v1 in a container: the path is the host's, the mount shows the part below",
			files: map[string]string{
				"proc/self/mountinfo":                    "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
				"proc/self/cgroup":                       "2:cpu:/docker/abc/sub\n",
				"sys/fs/cgroup/cpu/sub/cpu.cfs_quota_us": "50000\n", "sys/fs/cgroup/cpu/sub/cpu.cfs_period_us": "100000\n",
			},
			quota: 0.5,
		},
		{
			name: "a sibling with a longer name is not below the mount",
			files: map[string]string{
				"proc/self/mountinfo":                  "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
				"proc/self/cgroup":                     "2:cpu:/docker/abcd\n",
				"sys/fs/cgroup/cpu/d/cpu.cfs_quota_us": "50000\n", "sys/fs/cgroup/cpu/d/cpu.cfs_period_us": "100000\n",
				"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
			},
			quota: 3,
		},
		{
			name: "v1 and v2 mounted together",
			files: map[string]string{
				"proc/self/mountinfo": mountHybrid + mountV1, "proc/self/cgroup": "2:cpu,cpuacct:/q\n0::/u\n",
				"sys/fs/cgroup/cpu,cpuacct/q/cpu.cfs_quota_us":  "100000\n",
				"sys/fs/cgroup/cpu,cpuacct/q/cpu.cfs_period_us": "100000\n",
				"sys/fs/cgroup/unified/u/cgroup.procs":          "1\n",
			},
			quota: 1,
		},
		{
			name: "v1, memory",
			files: map[string]string{
				"proc/self/mountinfo": "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup " +
					"rw,memory\n",
				"proc/self/cgroup": "4:memory:/m\n",
				"sys/fs/cgroup/memory/m/memory.limit_in_bytes":       "536870912\n",
				"sys/fs/cgroup/memory/memory.limit_in_bytes":         "9223372036854771712\n",
				"sys/fs/cgroup/memory/m/memory.memsw.limit_in_bytes": "1\n",
			},
			bytes: 512 << 20,
		},
		{
			name: "a controller of a similar name is another one",
			files: map[string]string{
				"proc/self/mountinfo":               "34 31 0:31 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n",
				"proc/self/cgroup":                  "2:cpuacct:/\n",
				"sys/fs/cgroup/cpuacct/cpu.max":     "100000 100000\n",
				"sys/fs/cgroup/cpuacct/cpuset.cpus": "0\n",
			},
		},
		{
			name: "nonsense in the files",
			files: map[string]string{
				"proc/self/mountinfo": mountV2, "proc/self/cgroup": "garbage\n0::/\n",
				"sys/fs/cgroup/cpu.max": "lots\n", "sys/fs/cgroup/cpuset.cpus": "all\n",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(tt.files)
			if got := cpuQuota(root); got != tt.quota {
				t.Errorf("quota %v, want %v", got, tt.quota)
			}
			if got := MemoryLimit(root); got != tt.bytes {
				t.Errorf("memory limit %d, want %d", got, tt.bytes)
			}
			if got := cpuset(root); got != tt.set {
				t.Errorf("cpuset %d, want %d", got, tt.set)
			}
		})
	}
}

func TestControlGroup(t *testing.T) {
	const unified = "25 1 0:23 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
	for name, c := range map[string]struct{ mounts, own, want string }{
		"unified":  {unified, "0::/user.slice/session-3.scope\n", "/sys/fs/cgroup/user.slice/session-3.scope"},
		"the root": {unified, "0::/\n", "/sys/fs/cgroup"},
		"hybrid": {"30 1 0:5 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n40 1 0:6 / /sys/fs/cgroup/unified " +
			"rw shared:9 - cgroup2 none rw\n", "3:cpu:/x\n0::/y\n", "/sys/fs/cgroup/unified/y"},
		"a part is mounted": {"25 1 0:23 /docker/7 /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/7/a\n",
			"/sys/fs/cgroup/a"},
		"another part": {"25 1 0:23 /docker/7 /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/77\n", ""},
		"version 1":    {"30 1 0:5 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "3:cpu:/x\n", ""},
		"nothing":      {"", "", ""},
	} {
		if got := ControlGroup(fstest.MapFS{"proc/self/mountinfo": {Data: []byte(c.mounts)},
			"proc/self/cgroup": {Data: []byte(c.own)}}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestProcessesUsed checks that the processes are counted in the group whose limit applies.
func TestProcessesUsed(t *testing.T) {
	root := fstest.MapFS{}
	for name, text := range map[string]string{
		"proc/self/mountinfo":      "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"proc/self/cgroup":         "0::/a/b\n",
		"sys/fs/cgroup/a/pids.max": "20\n", "sys/fs/cgroup/a/pids.current": "17\n",
		"sys/fs/cgroup/a/b/pids.max": "max\n", "sys/fs/cgroup/a/b/pids.current": "3\n",
	} {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	if limit, used := ProcessLimit(root), ProcessesUsed(root); limit != 20 || used != 17 {
		t.Errorf("%d of %d", used, limit)
	}
	if used := ProcessesUsed(fstest.MapFS{}); used != 0 {
		t.Errorf("%d without a limit", used)
	}
}
