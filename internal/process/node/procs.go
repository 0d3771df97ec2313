package node

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/process/rendezvous"
)

// processes describes this node's ranks of a round; taps take their output.
func (n *node) processes(round *rendezvous.Round) ([]launch.Proc, error) {
	shares := cores.Share(n.spec.Cores, n.spec.Procs, n.spec.Threads, n.spec.Bind)
	procs := make([]launch.Proc, n.spec.Procs)
	n.taps = make(map[int][]*tap, n.spec.Procs)
	for local := range procs {
		vars := launch.RankVars{
			Rank: round.Node*n.spec.Procs + local, WorldSize: len(round.Hosts) * n.spec.Procs,
			LocalRank: local, LocalWorldSize: n.spec.Procs,
			MasterAddr: round.MasterAddr, MasterPort: round.MasterPort,
		}
		vars.MasterAddr = cmp.Or(n.spec.MasterAddr, vars.MasterAddr)
		if n.spec.MasterPort != 0 {
			vars.MasterPort = n.spec.MasterPort
		}
		p := launch.Proc{Rank: vars.Rank, Argv: n.spec.Argv,
			Env: launch.Environ(n.spec.Environ, n.spec.variables(round, vars), &vars)}
		if shares != nil {
			p.CPUs = shares[local]
		}
		for _, s := range []struct {
			stream Streams
			ext    string
			path   *string
		}{{Stdout, "out", &p.Stdout}, {Stderr, "err", &p.Stderr}} {
			log := ""
			if n.spec.Logs.Dir != "" {
				log = filepath.Join(n.spec.Logs.Dir, fmt.Sprintf("attempt%d", round.Attempt),
					fmt.Sprintf("rank%d.%s", vars.Rank, s.ext))
			}
			var shown *console
			if n.spec.Logs.shown(local, s.stream) {
				shown = n.console
			}
			t, err := openTap(vars.Rank, s.stream, log, shown, n.spec.Warn)
			if err != nil {
				return nil, err
			}
			n.taps[vars.Rank] = append(n.taps[vars.Rank], t)
			*s.path = t.path()
		}
		procs[local] = p
	}
	return procs, nil
}

// variables are what a rank finds in its environment besides the rank variables:
// torchrun's, so that its programs run unchanged.
func (s Spec) variables(round *rendezvous.Round, rank launch.RankVars) map[string]*string {
	set := map[string]*string{}
	put := func(name, value string) { set[name] = &value }
	preset := func(name, value string) { // the user's own setting wins
		if !slices.ContainsFunc(s.Environ, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			put(name, value)
		}
	}
	for name, value := range s.RankSecret {
		put(name, value)
	}
	put("GROUP_RANK", strconv.Itoa(round.Node))
	put("GROUP_WORLD_SIZE", strconv.Itoa(len(round.Hosts)))
	put("ROLE_NAME", s.Role)
	put("ROLE_RANK", strconv.Itoa(rank.Rank))
	put("ROLE_WORLD_SIZE", strconv.Itoa(rank.WorldSize))
	put("TORCHELASTIC_RUN_ID", s.ID)
	put("TORCHELASTIC_RESTART_COUNT", strconv.Itoa(round.Attempt))
	put("TORCHELASTIC_MAX_RESTARTS", strconv.Itoa(s.MaxRestarts))
	// Rank 0 makes the store itself: there is none at the master's port.
	put("TORCHELASTIC_USE_AGENT_STORE", "False")
	preset("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
	switch {
	case s.Threads > 0:
		for _, name := range cores.ThreadVars {
			put(name, strconv.Itoa(s.Threads))
		}
	case s.Procs > 1:
		preset("OMP_NUM_THREADS", "1") // as torchrun: many ranks with a thread per core each stall each other
	}
	for name, value := range jobenv.Reach(s.Interface, s.Ports) {
		put(name, value)
	}
	return set
}
