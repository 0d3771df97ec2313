package cli

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/cli/job"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/host/doctor"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/process/node"
	"github.com/kernbench/kernbench/internal/process/rendezvous"
)

// launchFlags are the flags of `launch`, most of them torchrun's.
type launchFlags struct {
	standalone     bool
	nodes, procs   int
	nnodes         string // nodes, as it was given
	perNode        string // procs, as it was given
	nodeRank       int
	endpoint, id   string
	backend        string
	secretFile     string
	joinTimeout    time.Duration
	heartbeat      time.Duration
	grace          time.Duration
	iface, addr    string
	ports          string // A-B
	masterAddr     string
	masterPort     int
	conf           string // torchrun's, of the rendezvous
	module         bool
	noPython       bool
	role           string
	ignored        string // torchrun's, which mean nothing here
	maxRestarts    int
	bind           string
	threads        int
	logDir         string
	redirects, tee string
	filter         []int
}

func (a *app) launchCommand() *cobra.Command {
	var f launchFlags
	cmd := &cobra.Command{
		Use:   "launch [flags] -- PROGRAM ARGS",
		Short: "Start a program as the ranks of a job, on one node or on several",
		Long: `Starts PROGRAM once per rank, with torchrun's variables in its environment
(RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, ...).
On several nodes, give the same command on each: the node that owns the address
of --rdzv-endpoint runs the rendezvous, where the nodes meet and get their ranks.

The first rank that fails, is killed or stops responding ends the job on every
node, as do a lost node and a network failure; one message says which it was.

Commands of torchrun work unchanged: a file NAME.py and a module (-m) run under
python3, flags may have underscores, and variables such as PET_NNODES stand for
flags that are left out.

Several nodes need a shared secret of at least 16 characters, in a file
(--rdzv-secret-file) or in ` + job.SecretVar + `:
  head -c 32 /dev/urandom | base64 > secret && chmod 600 secret

Exit status: 0 when every rank succeeded; otherwise that of the rank that failed
first, 128 + N if signal N ended it, 1 if no rank failed by itself (a lost node, a
stopped rank, missing nodes); 2 wrong usage, 130 interrupted.`,
		Example: fmt.Sprintf(`  %[1]s launch --standalone --nproc-per-node 4 -- python3 train.py
  %[1]s launch --nnodes 2 --nproc-per-node 8 --rdzv-endpoint node0:29400 --rdzv-id job1 --rdzv-secret-file secret -- ./program
  %[1]s launch --standalone --nproc-per-node 4 --log-dir logs --redirects 3 --tee 0:3 -- ./program`, a.name),
		Args: arguments(1, -1, "a program after --, such as -- python3 train.py"),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := f.asTorchrun(cmd, args, a.environ)
			if err != nil {
				return usage(err)
			}
			return a.launch(cmd.Context(), f, args)
		},
	}
	f.declare(cmd.Flags())
	return cmd
}

// declare adds the flags, in the order of the help.
func (f *launchFlags) declare(fl *pflag.FlagSet) {
	fl.SetNormalizeFunc(request.Normalize)
	fl.SortFlags = false
	fl.SetInterspersed(false) // what follows the program is the program's
	fl.BoolVar(&f.standalone, "standalone", false, "one node, no rendezvous")
	fl.StringVar(&f.perNode, "nproc-per-node", "1",
		"ranks on each node: a number, gpu (one per GPU), cpu (one per core), or auto (gpu where there are any, else cpu)")
	fl.StringVar(&f.nnodes, "nnodes", "1", "number of nodes")
	fl.IntVar(&f.nodeRank, "node-rank", rendezvous.AnyNode, "this node's rank (default: in the order of arrival)")
	fl.StringVar(&f.endpoint, "rdzv-endpoint", "",
		"`HOST:PORT` of the rendezvous, an address of one of the nodes (port "+rendezvous.DefaultPort+" if left out)")
	fl.StringVar(&f.id, "rdzv-id", "none", "name of the job, the same on every node")
	fl.StringVar(&f.backend, "rdzv-backend", "c10d",
		"accepted for torchrun's sake; the rendezvous is always kernbench's own")
	fl.StringVar(&f.secretFile, "rdzv-secret-file", "",
		"`FILE` with the secret of the rendezvous (default: the variable "+job.SecretVar+")")
	fl.DurationVar(&f.joinTimeout, "join-timeout", rendezvous.DefaultJoinTimeout, "how long to wait for all nodes")
	fl.DurationVar(&f.heartbeat, "heartbeat", rendezvous.DefaultHeartbeat,
		"how long a node may be silent, or a rank stopped, before it counts as dead")
	fl.DurationVar(&f.grace, "grace", node.DefaultGrace,
		"time between SIGTERM and SIGKILL when the job ends early, for a checkpoint")
	fl.StringVar(&f.iface, "interface", "",
		"network interface to be reached by; sets NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME")
	fl.StringVar(&f.ports, "port-range", "",
		"ports `A-B` that the ranks may listen on for other nodes, as a firewall lets through (default: the variable "+
			jobenv.PortsVar+", or any); the rendezvous is at its own")
	fl.StringVar(&f.addr, "local-addr", "", "address to be reached by (default: the one that reaches the rendezvous)")
	fl.StringVar(&f.masterAddr, "master-addr", "",
		"MASTER_ADDR of the ranks (default: the first node's), and where the nodes meet without --rdzv-endpoint")
	fl.IntVar(&f.masterPort, "master-port", 0, "MASTER_PORT of the ranks (default: a free one)")
	fl.StringVar(&f.conf, "rdzv-conf", "",
		"torchrun's `KEY=VALUE,...`: join_timeout or timeout in seconds; the others have no meaning here")
	fl.BoolVarP(&f.module, "module", "m", false, "PROGRAM is a module of Python")
	fl.BoolVar(&f.noPython, "no-python", false,
		"start PROGRAM as it is, also a file NAME.py, which otherwise runs under python3")
	fl.StringVar(&f.role, "role", "default", "ROLE_NAME of the ranks")
	for _, name := range []string{"monitor-interval", "start-method"} {
		fl.StringVar(&f.ignored, name, "", "accepted for torchrun's sake")
	}
	fl.IntVar(&f.maxRestarts, "max-restarts", 0,
		"how often to start all ranks again after one has failed; a lost node ends the job")
	fl.StringVar(&f.bind, "bind", string(cores.Auto),
		"ranks to cores: auto (an equal share each), core (one per thread), none")
	fl.IntVar(&f.threads, "threads-per-rank", 0,
		"threads a rank may use; sets OMP_NUM_THREADS and the like (default: OMP_NUM_THREADS=1 with several ranks)")
	fl.StringVar(&f.logDir, "log-dir", "", "keep the output of every rank in `DIR`/attemptN/rankR.{out,err}")
	fl.StringVarP(&f.redirects, "redirects", "r", "0",
		"streams that go to --log-dir only: 1 stdout, 2 stderr, 3 both, or by local rank as in 0:1,1:3")
	fl.StringVarP(&f.tee, "tee", "t", "0", "streams that go to the console as well, in the same notation")
	fl.IntSliceVar(&f.filter, "local-ranks-filter", nil, "show only these local ranks on the console")
}

// asTorchrun fills in what torchrun's users say in other ways, and gives the command of
// a rank.
func (f *launchFlags) asTorchrun(cmd *cobra.Command, args, environ []string) (argv []string, err error) {
	if err = job.FromPET(cmd.Flags(), environ); err != nil {
		return nil, err
	}
	gpus := func() int {
		all, _ := doctor.Local(cmd.Context()).GPUs() // what cannot be counted is none
		return len(all)
	}
	if f.nodes, err = job.Nodes(f.nnodes); err != nil {
		return nil, err
	}
	if f.procs, err = job.ProcsPerNode(f.perNode, len(cores.Allowed()), gpus); err != nil {
		return nil, err
	}
	if !cmd.Flags().Changed("join-timeout") {
		if f.joinTimeout, err = job.JoinTimeout(f.conf, f.joinTimeout); err != nil {
			return nil, err
		}
	}
	if f.endpoint == "" && f.nodes > 1 {
		f.endpoint = f.masterAddr // at the rendezvous' own port: the ranks' store is at the master's
	}
	return job.Program(args, f.module, f.noPython)
}

// launch runs this node's part of the job.
func (a *app) launch(ctx context.Context, f launchFlags, argv []string) error {
	cfg, spec, err := a.launchSpec(f)
	if err != nil {
		return usage(err)
	}
	spec.Argv, cfg.Program = argv, argv
	agent, err := launch.Start(ctx)
	if err != nil {
		return err
	}
	defer agent.Close()
	failure, err := func() (*rendezvous.Failure, error) {
		member, err := rendezvous.Join(ctx, cfg)
		if err != nil {
			return nil, err
		}
		defer member.Close()
		return node.Run(ctx, agent, member, spec)
	}()
	switch {
	case failure != nil:
		fmt.Fprintf(a.stderr, "%s: %v\n", a.name, failure) // here: a rank's 2 is no mistake in our command line
		return &exitError{code: failure.Code}
	case err != nil && ctx.Err() != nil:
		return &exitError{exitInterrupted, errors.New("interrupted before all nodes had joined")}
	}
	return err
}

// launchSpec turns the flags into what the packages take, or says what is wrong
// with them.
func (a *app) launchSpec(f launchFlags) (cfg rendezvous.Config, spec node.Spec, err error) {
	host, err := os.Hostname()
	if err != nil {
		return cfg, spec, fmt.Errorf("finding this host's name: %w", err)
	}
	if err := f.check(); err != nil {
		return cfg, spec, err
	}
	ports, err := connection.ParsePortRange(cmp.Or(f.ports, jobenv.Variable(a.environ, jobenv.PortsVar)))
	if err != nil {
		return cfg, spec, fmt.Errorf("--port-range: %w", err)
	}
	cfg = rendezvous.Config{
		Ports:    ports,
		Endpoint: f.endpoint, ID: f.id, Nodes: f.nodes, Procs: f.procs, Node: f.nodeRank, MaxRestarts: f.maxRestarts,
		JoinTimeout: f.joinTimeout, Heartbeat: f.heartbeat, Grace: f.grace, Host: host, LocalAddr: f.addr,
	}
	spec = node.Spec{
		Environ: a.environ, ID: f.id, Role: f.role, Procs: f.procs, MaxRestarts: f.maxRestarts, Threads: f.threads,
		Bind: cores.Bind(f.bind), Cores: cores.Allowed(), Interface: f.iface, Ports: ports.String(),
		MasterAddr: f.masterAddr, MasterPort: f.masterPort, Heartbeat: f.heartbeat,
		Grace:  f.grace,
		Stdout: a.streams[0], Stderr: a.streams[1],
		Warn: func(text string) { fmt.Fprintf(a.stderr, "%s: warning: %s\n", a.name, text) },
		Restarting: func(round int, why rendezvous.Failure) {
			fmt.Fprintf(a.stderr, "%s: restart %d of %d: %v\n", a.name, round, f.maxRestarts, why)
		},
	}
	if spec.Logs, err = f.logs(); err != nil {
		return cfg, spec, err
	}
	if f.nodes > 1 {
		if cfg.Secret, err = (job.Process{Environ: a.environ, SecretFile: f.secretFile}).Secret(); err != nil {
			return cfg, spec, err
		}
		mac := hmac.New(sha256.New, cfg.Secret)
		mac.Write([]byte("ranks of job " + f.id))
		spec.RankSecret = map[string]string{job.RankSecretVar: hex.EncodeToString(mac.Sum(nil))}
	}
	if f.iface != "" && f.addr == "" {
		cfg.LocalAddr, err = rendezvous.InterfaceAddr(f.iface, f.endpoint)
	}
	return cfg, spec, err
}

// check finds values that no job can have.
func (f launchFlags) check() error {
	for _, n := range []struct {
		flag         string
		value, least int
	}{{"max-restarts", f.maxRestarts, 0}, {"threads-per-rank", f.threads, 0}} {
		if err := request.AtLeast(n.flag, n.value, n.least); err != nil {
			return err
		}
	}
	if i := slices.IndexFunc(f.filter, func(rank int) bool { return rank < 0 || rank >= f.procs }); i >= 0 {
		return fmt.Errorf("--local-ranks-filter %d: the local ranks are 0 to %d (--nproc-per-node - 1)", f.filter[i],
			f.procs-1)
	}
	switch {
	case f.nodeRank != rendezvous.AnyNode && (f.nodeRank < 0 || f.nodeRank >= f.nodes):
		return fmt.Errorf("--node-rank %d: it must be 0 to %d (--nnodes - 1)", f.nodeRank, f.nodes-1)
	case f.masterPort < 0 || f.masterPort > 65535:
		return fmt.Errorf("--master-port %d is not a port", f.masterPort)
	case f.grace <= 0:
		return fmt.Errorf("--grace %v: want a time above 0, such as 30s", f.grace)
	case f.standalone && f.nodes > 1:
		return fmt.Errorf("--standalone is for one node, --nnodes is %d", f.nodes)
	case f.nodes > 1 && f.endpoint == "":
		return fmt.Errorf("%d nodes need an address to meet at: --rdzv-endpoint HOST:PORT, of one of them, or --master-addr",
			f.nodes)
	case !slices.Contains([]string{"c10d", "static"}, f.backend):
		return suggest.Unknown("rendezvous backend", f.backend, []string{"c10d", "static"})
	case !slices.Contains(cores.Binds(), f.bind):
		return suggest.Unknown("binding", f.bind, cores.Binds())
	}
	return nil
}

// logs says where the ranks' output goes.
func (f launchFlags) logs() (logs node.Logs, err error) {
	logs = node.Logs{Dir: f.logDir, Filter: f.filter}
	if logs.Redirects, err = node.ParseSelection(f.redirects); err != nil {
		return logs, fmt.Errorf("--redirects %w", err)
	}
	if logs.Tee, err = node.ParseSelection(f.tee); err != nil {
		return logs, fmt.Errorf("--tee %w", err)
	}
	if f.logDir == "" && !logs.Redirects.Empty() {
		return logs, errors.New("--redirects would throw output away: it needs --log-dir")
	}
	return logs, nil
}
