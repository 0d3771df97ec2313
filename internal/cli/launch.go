package cli

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/cli/guide"
	"github.com/kernbench/kernbench/internal/cli/job"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/host/doctor"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/process/node"
)

// noID is the name of a job without --rdzv-id.
const noID = "none"

// launchFlags holds the flags of `launch`, most of which are torchrun's. Flags whose value needs no
// conversion are stored in spec directly.
type launchFlags struct {
	spec       node.Spec
	standalone bool
	nnodes     string
	perNode    string
	backend    string
	secretFile string
	ports      string // A-B
	conf       string // --rdzv-conf
	module     bool
	noPython   bool
	ignored    string // for torchrun's flags that have no meaning here
	bind       string
	redirects  string
	tee        string
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

The job ends on every node when the first rank fails, is killed or stops
responding, and also when a node or the network fails. One message names the cause.
With --max-restarts, all ranks start again after the failure of a rank. A lost node ends
the job; kernbench run --resume then continues its journal in the next job.

torchrun commands work unchanged: a file NAME.py and a module (-m) run under
python3, flags may be spelled with underscores, and variables such as PET_NNODES
replace omitted flags.

Several nodes need a shared secret of at least 16 characters, in a file
(--rdzv-secret-file) or in ` + job.SecretVar + `:
  head -c 32 /dev/urandom | base64 > secret && chmod 600 secret

If ranks fail, the exit status is the one of the first rank that failed (128 + N if signal
N killed it).`,
		Example: fmt.Sprintf(`  %[1]s launch --standalone --nproc-per-node 4 -- python3 train.py
  %[1]s launch --nnodes 2 --nproc-per-node 8 --rdzv-endpoint node0:29400 --rdzv-secret-file secret -- ./program
  %[1]s launch --standalone --nproc-per-node 4 --log-dir logs --redirects 3 --tee 0:3 -- ./program`, a.name),
		Annotations: cleansUp(codes{exitGood: "every rank succeeded",
			exitFailed: "no rank failed by itself (lost node, stopped rank, missing nodes)"}),
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
	fl.SetInterspersed(false) // flags after the program belong to the program
	spec := &f.spec
	fl.BoolVar(&f.standalone, "standalone", false, "one node, no rendezvous")
	fl.StringVar(&f.perNode, "nproc-per-node", "1",
		"ranks on each node: a number `N`, gpu (one per GPU), cpu (one per core), or auto (gpu if there are any, else cpu)")
	fl.StringVar(&f.nnodes, "nnodes", "1",
		"number of nodes `N`; torchrun's N:N means the same")
	fl.IntVar(&spec.Node, "node-rank", node.AnyNode,
		"this node's rank (default: by order of arrival)")
	fl.StringVar(&spec.Endpoint, "rdzv-endpoint", "",
		"`HOST:PORT` of the rendezvous, an address of one of the nodes; without a port, "+node.DefaultPort)
	fl.StringVar(&spec.ID, "rdzv-id", noID, "`NAME` of the job, the same on every node")
	f.backend = "c10d"
	request.Choice(fl, &f.backend, "rdzv-backend", "rendezvous backend",
		"accepted for compatibility with torchrun, but ignored", []string{"c10d", "static"})
	fl.StringVar(&f.secretFile, "rdzv-secret-file", "",
		"`FILE` with the secret of the rendezvous (default: the variable "+job.SecretVar+")")
	fl.BoolVar(&spec.AllowOtherBuild, "allow-other-build", false, request.OtherBuildHelp)
	fl.DurationVar(&spec.JoinTimeout, "join-timeout", node.DefaultJoinTimeout,
		"how long to wait for all nodes")
	fl.DurationVar(&spec.Heartbeat, "heartbeat", node.DefaultHeartbeat,
		"how long a node may be silent, or a rank stopped, before it counts as dead")
	fl.DurationVar(&spec.Grace, "grace", node.DefaultGrace,
		"time between SIGTERM and SIGKILL when the job ends early, for a checkpoint")
	fl.StringVar(&spec.Interface, "interface", "",
		"`NAME` of the network interface for connections from other nodes; sets NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME")
	fl.StringVar(&f.ports, "port-range", "",
		"ports `A-B` on which the ranks may listen for other nodes, if a firewall allows only some; the rendezvous has its "+
			"own port (default: the variable "+jobenv.PortsVar+", or any)")
	fl.StringVar(&spec.LocalAddr, "local-addr", "",
		"this node's `ADDRESS` for other nodes (default: the one that reaches the rendezvous)")
	fl.StringVar(&spec.MasterAddr, "master-addr", "",
		"`HOST` for MASTER_ADDR of the ranks; without --rdzv-endpoint also the host of the rendezvous (default: the first "+
			"node's address)")
	fl.IntVar(&spec.MasterPort, "master-port", 0, "`PORT` for MASTER_PORT of the ranks (default: a free one)")
	fl.StringVar(&f.conf, "rdzv-conf", "",
		"torchrun's `KEY=VALUE,...`: join_timeout, or timeout, in seconds; other keys are ignored")
	guide.Under("Nodes, addresses and time limits", fl)
	fl.BoolVarP(&f.module, "module", "m", false, "PROGRAM is a Python module")
	fl.BoolVar(&f.noPython, "no-python", false, "start PROGRAM directly; by default a file NAME.py runs under python3")
	fl.StringVar(&spec.Role, "role", "default", "`NAME` for ROLE_NAME of the ranks")
	for _, name := range []string{"monitor-interval", "start-method"} {
		fl.StringVar(&f.ignored, name, "", "`VALUE` is accepted for compatibility with torchrun, but ignored")
	}
	fl.IntVar(&spec.MaxRestarts, "max-restarts", 0,
		"how often to restart all ranks after one has failed; a lost node ends the job")
	f.bind = string(cores.Auto)
	request.Choice(fl, &f.bind, "bind", "binding", request.BindHelp, cores.Binds())
	fl.IntVar(&spec.Threads, "threads-per-rank", 0,
		"threads of each rank; sets OMP_NUM_THREADS and the like (default: OMP_NUM_THREADS=1 with several ranks)")
	guide.Under("Program and cores", fl)
	fl.StringVar(&spec.Logs.Dir, "log-dir", "", "write the output of every rank to `DIR`/attemptN/rankR.{out,err}")
	fl.StringVarP(&f.redirects, "redirects", "r", "0",
		"`STREAMS` that go only to --log-dir: 1 stdout, 2 stderr, 3 both, or by local rank as in 0:1,1:3")
	fl.StringVarP(&f.tee, "tee", "t", "0",
		"`STREAMS`, in the same notation, that go to --log-dir and to the console, where each line begins with its rank")
	fl.IntSliceVar(&spec.Logs.Filter, "local-ranks-filter", nil, "show only these local `RANKS` on the console")
	guide.Under("Output", fl)
}

// asTorchrun applies torchrun's environment variables and conventions to the flags, and returns
// the command of a rank.
func (f *launchFlags) asTorchrun(cmd *cobra.Command, args, environ []string) (argv []string, err error) {
	if err = job.FromPET(cmd.Flags(), environ); err != nil {
		return nil, err
	}
	gpus := func() int {
		all, _ := doctor.Local(cmd.Context()).GPUs() // GPUs that cannot be listed cannot be used
		return len(all)
	}
	if f.spec.Nodes, err = job.Nodes(f.nnodes); err != nil {
		return nil, err
	}
	if f.spec.Procs, err = job.ProcsPerNode(f.perNode, len(cores.Allowed()), gpus); err != nil {
		return nil, err
	}
	join, err := job.JoinTimeout(f.conf)
	if err != nil {
		return nil, err
	}
	if !cmd.Flags().Changed("join-timeout") {
		f.spec.JoinTimeout = cmp.Or(join, f.spec.JoinTimeout)
	}
	if f.spec.Endpoint == "" && f.spec.Nodes > 1 {
		// Do not use --master-port: that port is for the store of the ranks.
		f.spec.Endpoint = f.spec.MasterAddr
	}
	return job.Program(args, f.module, f.noPython)
}

// launch runs this node's part of the job.
func (a *app) launch(ctx context.Context, f launchFlags, argv []string) error {
	if err := f.complete(a, argv); err != nil {
		return usage(err)
	}
	agent, err := launch.Start(ctx, f.spec.Logs.Dir)
	if err != nil {
		return err
	}
	defer agent.Close()
	failure, err := node.Run(ctx, agent, f.spec)
	switch {
	case failure != nil:
		// Print it here: run would treat an exit code 2 of a rank as a usage error of this program.
		a.stderr.Printf("%s: %v\n", a.name, texttab.Block(failure.String()))
		return &exitError{code: failure.Code}
	case err != nil && ctx.Err() != nil:
		return &exitError{exitInterrupted, errors.New("interrupted before all nodes had joined")}
	}
	return err
}

// complete checks the flags and fills in the rest of spec.
func (f *launchFlags) complete(a *app, argv []string) (err error) {
	spec := &f.spec
	if spec.Host, err = os.Hostname(); err != nil {
		return fmt.Errorf("finding this host's name: %w", err)
	}
	if err := f.check(); err != nil {
		return err
	}
	if spec.Ports, err = connection.ParsePortRange(cmp.Or(f.ports,
		jobenv.Variable(a.environ, jobenv.PortsVar))); err != nil {
		return fmt.Errorf("--port-range: %w", err)
	}
	if f.standalone && spec.ID == noID {
		spec.ID = rand.Text() // like torchrun: two jobs on one host must not use the same files
	}
	spec.Program = argv
	spec.Environ, spec.Stdout, spec.Stderr = a.environ, a.streams[0], a.streams[1]
	spec.Bind, spec.Cores = cores.Bind(f.bind), cores.Allowed()
	spec.Warn = func(text string) { a.stderr.Printf("%s: warning: %s\n", a.name, text) }
	spec.Restarting = func(v node.Verdict) {
		a.stderr.Printf("%s: restart %d of %d: %v\n", a.name, v.Restarts, spec.MaxRestarts,
			texttab.Block(v.Failure.String()))
	}
	if spec.Nodes > 1 {
		if spec.Secret, err = (job.Process{Environ: a.environ, SecretFile: f.secretFile}).Secret(); err != nil {
			return err
		}
		mac := hmac.New(sha256.New, spec.Secret)
		mac.Write([]byte("ranks of job " + spec.ID))
		spec.RankSecret = map[string]string{job.RankSecretVar: hex.EncodeToString(mac.Sum(nil))}
	}
	if spec.Interface != "" && spec.LocalAddr == "" {
		spec.LocalAddr, err = node.InterfaceAddr(spec.Interface, spec.Endpoint)
	}
	return err
}

// check parses the log streams and rejects values that no job can have.
func (f *launchFlags) check() (err error) {
	spec, logs := f.spec, &f.spec.Logs
	if logs.Redirects, err = node.ParseSelection(f.redirects); err != nil {
		return fmt.Errorf("--redirects %w", err)
	}
	if logs.Tee, err = node.ParseSelection(f.tee); err != nil {
		return fmt.Errorf("--tee %w", err)
	}
	if err := errors.Join(request.AtLeast("max-restarts", spec.MaxRestarts, 0),
		request.AtLeast("threads-per-rank", spec.Threads, 0)); err != nil {
		return err
	}
	if i := slices.IndexFunc(logs.Filter, func(rank int) bool { return rank < 0 || rank >= spec.Procs }); i >= 0 {
		return fmt.Errorf("--local-ranks-filter %d: want local ranks from 0 to %d (--nproc-per-node - 1)", logs.Filter[i],
			spec.Procs-1)
	}
	switch {
	case logs.Dir == "" && !logs.Redirects.Empty():
		return errors.New("--redirects would discard output: it needs --log-dir")
	case spec.Node != node.AnyNode && (spec.Node < 0 || spec.Node >= spec.Nodes):
		return fmt.Errorf("--node-rank %d: want 0 to %d (--nnodes - 1)", spec.Node, spec.Nodes-1)
	case spec.MasterPort < 0 || spec.MasterPort > 65535:
		return fmt.Errorf("--master-port %d: want a port from 0 to 65535", spec.MasterPort)
	case spec.Grace <= 0:
		return fmt.Errorf("--grace %v: want a time above 0, such as 30s", spec.Grace)
	case f.standalone && spec.Nodes > 1:
		return fmt.Errorf("--standalone means one node, but --nnodes is %d", spec.Nodes)
	case spec.Nodes > 1 && spec.Endpoint == "":
		return fmt.Errorf("%d nodes need an address to meet: give --rdzv-endpoint HOST:PORT, an address of one of them, "+
			"or --master-addr", spec.Nodes)
	}
	return nil
}
