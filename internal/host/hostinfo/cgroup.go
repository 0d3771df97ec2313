package hostinfo

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// cpuQuota gives how many CPUs' worth of time the control groups grant this
// process, 0 without a limit.
func cpuQuota(root fs.FS) float64 { return tightest(root, "cpu", quotaOf) }

// memoryLimit gives the bytes the control groups grant this process, 0 without a
// limit.
func memoryLimit(root fs.FS) int64 {
	return int64(tightest(root, "memory", func(root fs.FS, dir string) float64 {
		return number(cmp.Or(line(root, dir+"/memory.max"), line(root, dir+"/memory.limit_in_bytes")))
	}))
}

// tightest is the least of the limits that the groups of this process have, 0
// without any: a group is bound by its ancestors' limits too.
func tightest(root fs.FS, controller string, limitOf func(root fs.FS, dir string) float64) float64 {
	least := 0.0
	for _, dir := range cgroupDirs(root, controller) {
		if limit := limitOf(root, dir); limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
	}
	return least
}

// quotaOf reads one group's quota: version 2 has both numbers in one file,
// version 1 in two. No limit is "max" in the one and -1 in the other.
func quotaOf(root fs.FS, dir string) float64 {
	quota := line(root, dir+"/cpu.cfs_quota_us")
	period := line(root, dir+"/cpu.cfs_period_us")
	if both := strings.Fields(line(root, dir+"/cpu.max")); len(both) == 2 {
		quota, period = both[0], both[1]
	}
	q, p := number(quota), number(period)
	if q <= 0 || p <= 0 {
		return 0
	}
	return q / p
}

// cpuset counts the processors the control groups allow. Without the controller
// in the group itself the nearest ancestor's set holds.
func cpuset(root fs.FS) int {
	for _, dir := range cgroupDirs(root, "cpuset") {
		// The effective set comes first: the plain one may be empty (inherit)
		// or name processors that are offline.
		for _, file := range []string{"cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"} {
			if n := countCPUs(line(root, path.Join(dir, file))); n > 0 {
				return n
			}
		}
	}
	return 0
}

// cgroupDirs lists the folders of the groups this process is in for a
// controller, from its own up to the top of what is mounted. Where version 1 and
// 2 are both mounted, both are listed: only the one that has the controller has
// its files.
func cgroupDirs(root fs.FS, controller string) []string {
	var dirs []string
	for _, l := range lines(root, "proc/self/mountinfo") {
		mount, ok := parseMount(l)
		if !ok {
			continue
		}
		hierarchy := controller
		switch {
		case mount.kind == "cgroup2":
			hierarchy = ""
		case mount.kind != "cgroup" || !slices.Contains(mount.options, controller):
			continue
		}
		dir, ok := mount.folder(groupPath(root, hierarchy))
		if !ok {
			dir = mount.point
		}
		for ; len(dir) > len(mount.point); dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
		dirs = append(dirs, mount.point)
	}
	return dirs
}

// ControlGroup is the folder of this process's group of version 2, "" where there is none.
func ControlGroup(root fs.FS) string {
	for _, l := range lines(root, "proc/self/mountinfo") {
		if mount, ok := parseMount(l); ok && mount.kind == "cgroup2" {
			if dir, ok := mount.folder(groupPath(root, "")); ok {
				return "/" + dir
			}
		}
	}
	return ""
}

// groupPath gives the process's group in the hierarchy of a version 1
// controller, or in the version 2 hierarchy for "".
func groupPath(root fs.FS, controller string) string {
	for _, l := range lines(root, "proc/self/cgroup") {
		// Lines are ID:CONTROLLER,CONTROLLER:PATH; version 2 names none.
		if fields := strings.SplitN(l, ":", 3); len(fields) == 3 &&
			slices.Contains(strings.Split(fields[1], ","), controller) {
			return path.Clean("/" + fields[2])
		}
	}
	return "/"
}

// mount is the part of a mountinfo line needed here; paths of the file tree
// have no leading slash.
type mount struct {
	root, point, kind string
	options           []string
}

// folder is where a group is mounted. In a container its path may be written as the host
// sees it, in which case the mount shows only the part below its root.
func (m mount) folder(group string) (string, bool) {
	below, ok := strings.CutPrefix(group+"/", strings.TrimSuffix(m.root, "/")+"/")
	return path.Join(m.point, below), ok
}

func parseMount(l string) (mount, bool) {
	before, after, found := strings.Cut(l, " - ")
	left, right := strings.Fields(before), strings.Fields(after)
	if !found || len(left) < 5 || len(right) < 3 {
		return mount{}, false
	}
	return mount{
		root:    left[3],
		point:   strings.TrimPrefix(left[4], "/"),
		kind:    right[0],
		options: strings.Split(right[2], ","),
	}, true
}
