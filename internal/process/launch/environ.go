package launch

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/process/connection"
)

const (
	// TagVar marks every process of a launch and, unless it clears its environment, every descendant.
	TagVar = "KERNBENCH_LAUNCH"

	// HelperVar makes a program a helper of one of its benches: its value is "bench/helper".
	HelperVar = "KERNBENCH_HELPER"

	// agentVar carries the one-time token and makes a program an agent.
	agentVar = "KERNBENCH_AGENT"
)

// RankVars are the variables by which a rank finds its place and its peers, under the names torchrun uses.
type RankVars struct {
	Rank, WorldSize           int
	LocalRank, LocalWorldSize int
	MasterAddr                string // empty is 127.0.0.1
	MasterPort                int
}

// Variables that an outer launcher sets for one of its own ranks. Left in place they would make a program join that
// job instead of ours. A trailing * stands for any ending.
var (
	launcherVars = []string{
		"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_*", "NODE_RANK",
		"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_*",
		"OMPI_COMM_WORLD_*", "OMPI_UNIVERSE_SIZE", "PMIX_*",
		"PMI_*", "HYDI_CONTROL_FD", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
		"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_*",
		"KERNBENCH_*",
	}
	// Settings of the user, though they share a prefix with the above. So are the variables that name the file of a
	// declared library.
	settingVars = []string{"PMIX_MCA_*", "KERNBENCH_HOST", "KERNBENCH_MPI_LIB", "KERNBENCH_PETSC",
		"KERNBENCH_CUDA_TAKE_TURNS"}
)

// setting reports whether a variable is the user's, for every process alike.
func setting(name string) bool {
	return matches(settingVars, name) ||
		slices.ContainsFunc(dynlib.Libraries.All(), func(s dynlib.Spec) bool { return s.Env == name })
}

// Environ makes the complete environment of one process: base without the variables of an outer launcher, with set
// applied (nil removes), with the rank variables. A set variable wins over everything but the rank variables, which
// are left out altogether when rank is nil (a program that starts its own ranks). Of several entries
// of one name in base the last counts, and what is not NAME=value is dropped. The result is sorted by
// name.
func Environ(base []string, set map[string]*string, rank *RankVars) []string {
	vars := make(map[string]string, len(base)+len(set))
	for _, entry := range base {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			continue // no program can look it up
		}
		if !matches(launcherVars, name) || setting(name) {
			vars[name] = entry
		}
	}
	for name, value := range set {
		if value == nil {
			delete(vars, name)
		} else {
			vars[name] = name + "=" + *value
		}
	}
	for name, value := range rank.Values() {
		vars[name] = name + "=" + value
	}
	entries := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		entries = append(entries, vars[name])
	}
	return entries
}

// Apply is an environment with the variables as they are set.
func (s EnvOverrides) Apply(environ []string) []string {
	out := slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, replaced := s[name]
		return replaced
	})
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if value := s[name]; value != nil {
			out = append(out, name+"="+*value)
		}
	}
	return out
}

// Values are the variables by name.
func (r *RankVars) Values() map[string]string {
	if r == nil {
		return nil
	}
	addr := cmp.Or(r.MasterAddr, "127.0.0.1")
	return map[string]string{
		"RANK":             strconv.Itoa(r.Rank),
		"WORLD_SIZE":       strconv.Itoa(r.WorldSize),
		"LOCAL_RANK":       strconv.Itoa(r.LocalRank),
		"LOCAL_WORLD_SIZE": strconv.Itoa(r.LocalWorldSize),
		"MASTER_ADDR":      addr,
		"MASTER_PORT":      strconv.Itoa(r.MasterPort),
	}
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, open := strings.CutSuffix(pattern, "*")
		return name == pattern || open && strings.HasPrefix(name, prefix)
	})
}

// FreePort returns a TCP port of the loopback interface that was free a moment ago. Another program may take it before
// it is used, so a failed bind is worth a second try with another port.
func FreePort() (int, error) { return connection.PortRange{}.FreePort("127.0.0.1") }
