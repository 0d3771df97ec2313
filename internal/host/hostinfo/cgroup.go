package hostinfo

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// cpuQuota returns the processor time that the control groups grant this process, as a number of processors. It returns
// 0 if there is no limit.
func cpuQuota(root fs.FS) float64 { return tightest(root, "cpu", quotaOf) }

// ProcessLimit returns the number of processes and threads that the control groups grant this process
// and the others in its group, or 0 without a limit.
func ProcessLimit(root fs.FS) int64 {
	return int64(tightest(root, "pids", func(root fs.FS, dir string) float64 {
		return number(line(root, dir+"/pids.max"))
	}))
}

// ProcessesUsed returns the number of processes and threads in the control group with the limit that ProcessLimit
// returns, or 0 if there is no limit.
func ProcessesUsed(root fs.FS) int64 {
	limit, used := ProcessLimit(root), 0.0
	for _, dir := range CgroupDirs(root, "pids") {
		if limit > 0 && int64(number(line(root, dir+"/pids.max"))) == limit {
			used = max(used, number(line(root, dir+"/pids.current")))
		}
	}
	return int64(used)
}

// MemoryLimit returns the bytes of memory that the control groups grant this process, or 0
// without a limit.
func MemoryLimit(root fs.FS) int64 {
	return int64(tightest(root, "memory", func(root fs.FS, dir string) float64 {
		return number(cmp.Or(line(root, dir+"/memory.max"), line(root, dir+"/memory.limit_in_bytes")))
	}))
}

// tightest returns the lowest limit of the groups of this process, or 0 if there is none. The
// limits of a group's ancestors apply too.
func tightest(root fs.FS, controller string, limitOf func(root fs.FS, dir string) float64) float64 {
	lowest := 0.0
	for _, dir := range CgroupDirs(root, controller) {
		if limit := limitOf(root, dir); limit > 0 && (lowest == 0 || limit < lowest) {
			lowest = limit
		}
	}
	return lowest
}

// quotaOf returns the quota of one group. Version 2 has quota and period in one file, version 1
// in two. Without a limit the quota is "max" in version 2 and -1 in version 1.
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

// cpuset returns the number of processors that the control groups allow. If the group itself
// lacks the controller, the set of its nearest ancestor applies.
func cpuset(root fs.FS) int {
	for _, dir := range CgroupDirs(root, "cpuset") {
		// The effective set comes first, because the plain one may be empty (inherited) or contain
		// offline processors.
		for _, file := range []string{"cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"} {
			if n := countCPUs(line(root, path.Join(dir, file))); n > 0 {
				return n
			}
		}
	}
	return 0
}

// CgroupDirs returns the folders of this process's group and its ancestors for a controller,
// up to the mount point, without the leading slash. If versions 1 and 2 are both mounted, it returns the folders of
// both; only one of them has the files of the controller.
func CgroupDirs(root fs.FS, controller string) []string {
	var dirs []string
	for _, m := range CgroupMounts(root) {
		hierarchy := controller
		if m.Version == 2 {
			hierarchy = ""
		} else if !slices.Contains(m.Controllers, controller) {
			continue
		}
		dir, ok := m.folder(groupPath(root, hierarchy))
		if !ok {
			dir = m.point
		}
		for ; len(dir) > len(m.point); dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
		dirs = append(dirs, m.point)
	}
	return dirs
}

// ControlGroup returns the folder of this process's version 2 control group, or "" if there is none.
func ControlGroup(root fs.FS) string {
	for _, m := range CgroupMounts(root) {
		if dir, ok := m.folder(groupPath(root, "")); ok && m.Version == 2 {
			return "/" + dir
		}
	}
	return ""
}

// groupPath returns the path of this process's group in the hierarchy of a version 1
// controller, or in the version 2 hierarchy if controller is "".
func groupPath(root fs.FS, controller string) string {
	for _, l := range lines(root, "proc/self/cgroup") {
		// Lines are ID:CONTROLLER,CONTROLLER:PATH. The list is empty for version 2.
		if fields := strings.SplitN(l, ":", 3); len(fields) == 3 &&
			slices.Contains(strings.Split(fields[1], ","), controller) {
			return path.Clean("/" + fields[2])
		}
	}
	return "/"
}

// CgroupMount is a mounted hierarchy of control groups.
type CgroupMount struct {
	Version     int
	Controllers []string // mount options, which include the controllers of version 1

	root  string // path of the mounted group in the hierarchy
	point string // mount point, without leading slash
}

// CgroupMounts returns the hierarchies that this process sees.
func CgroupMounts(root fs.FS) (mounts []CgroupMount) {
	for _, l := range lines(root, "proc/self/mountinfo") {
		before, after, _ := strings.Cut(l, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 3 {
			continue
		}
		version := slices.Index([]string{"cgroup", "cgroup2"}, right[0]) + 1
		if version > 0 {
			mounts = append(mounts, CgroupMount{version, strings.Split(right[2], ","), left[3],
				strings.TrimPrefix(left[4], "/")})
		}
	}
	return mounts
}

// folder returns the folder of a group below the mount point, and whether the mount contains the
// group. In a container, the kernel may report the group's path as the host sees it, while the mount
// shows only the part below its root.
func (m CgroupMount) folder(group string) (string, bool) {
	below, ok := strings.CutPrefix(group+"/", strings.TrimSuffix(m.root, "/")+"/")
	return path.Join(m.point, below), ok
}
