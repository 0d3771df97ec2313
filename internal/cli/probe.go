package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/probe"
	"github.com/kernbench/kernbench/internal/cli/job"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// machineFormats are the formats of what is known about this machine, the default first.
var machineFormats = []string{"table", "json"}

// probeFlags holds the flags of `probe`.
type probeFlags struct {
	quick                       bool
	out, format                 string
	cores                       []int
	iface, endpoint, secretFile string // for a job on several hosts
	otherBuild                  bool   // --allow-other-build
}

const probeLong = `Measures the limits of this host: the bandwidth with which 1 to n cores copy and
read memory, from the first-level cache to main memory; the latency of a cache line
between two cores; and the bandwidth with which cores exchange data. Benches compare
their times with these limits. The read test reads four arrays at once with the widest instructions; the bench
memory reads one array in a plain loop, which is slower from the caches.

The result is stored in the user's cache folder, by class of host, until the host or
kernbench changes. A bench that finds no result makes a quick probe. --cores measures
only the given core counts, which takes less time; it needs --out, because the result
only estimates other counts. Nothing else should run at the same time.

As the ranks of a job on several hosts (launch, torchrun, mpirun, mpiexec, srun) it
measures the TCP network between them instead: latency and bandwidth of each pair of
hosts, in one direction and in both, and of all hosts at once. With several ranks per
host, as many connections are measured together. A bench over several hosts makes a
short measurement by itself before its first point.`

func (a *app) probeCommand() *cobra.Command {
	f := probeFlags{format: machineFormats[0]}
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Measure the limits of this host, or of the network between hosts",
		Long:  probeLong,
		Example: fmt.Sprintf(`  %[1]s probe
  %[1]s probe --quick --format json
  %[1]s probe --out limits.json && %[1]s run --bench collectives --probe limits.json
  %[1]s probe --cores 2,16 --out limits.json
  %[1]s launch --nnodes 2 --rdzv-endpoint node0:29400 --rdzv-secret-file secret -- %[1]s probe`, a.name),
		Args:        noArguments,
		Annotations: cleansUp(nil),
		RunE: func(cmd *cobra.Command, _ []string) error {
			self := a.process(f.endpoint, f.secretFile, f.otherBuild)
			of, err := self.Find("auto")
			switch {
			case err != nil:
				return usage(err)
			case of != nil && of.Size > 1:
				return a.probeNetwork(cmd.Context(), f, self, of)
			}
			return a.probeHost(cmd.Context(), f)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.quick, "quick", false, "fewer sizes, or shorter transfers: takes a few seconds")
	fl.IntSliceVar(&f.cores, "cores", nil, "only these core `COUNTS` (default: the powers of two, and all)")
	request.Choice(fl, &f.format, "format", "format", "what to print", machineFormats)
	fl.StringVar(&f.out, "out", "", "`FILE` to write (default: in the user's cache folder; none for a network)")
	fl.StringVar(&f.iface, "interface", "",
		"`NAME` of the network interface to measure between hosts (default: "+jobenv.InterfaceVar+
			", which launch --interface sets, or any)")
	fl.StringVar(&f.endpoint, "rdzv-endpoint", "", "`HOST:PORT` on the host of rank 0 where the ranks meet, as for run")
	fl.StringVar(&f.secretFile, "rdzv-secret-file", "", "`FILE` with the secret that authenticates the ranks, as for run")
	fl.BoolVar(&f.otherBuild, "allow-other-build", false, request.OtherBuildHelp)
	return cmd
}

// storeProbe writes a result to the file of --out.
func storeProbe(stderr texttab.Out, path string, write func(io.Writer) error) error {
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return err
	}
	if err := journal.WriteFileAtomic(path, text.Bytes()); err != nil {
		return err
	}
	stderr.Printf("wrote %s\n", path)
	return nil
}

// probeHost measures this host.
func (a *app) probeHost(ctx context.Context, f probeFlags) error {
	if len(f.cores) > 0 && f.out == "" {
		return usage(errors.New("--cores measures only some of this host's limits, which are not stored for other runs: " +
			"name a file with --out"))
	}
	profile := probe.Thorough
	if f.quick {
		profile = probe.Quick
	}
	profile.Counts = f.cores
	r, err := probe.Measure(ctx, profile, time.Now())
	if errors.Is(err, probe.ErrCoreCount) {
		return usage(fmt.Errorf("--cores: %w", err))
	}
	if err != nil {
		return err
	}
	if f.out == "" {
		if f.out, err = probe.Path(hostinfo.Local()); err != nil {
			return err
		}
	}
	if err := probe.Save(f.out, r); err != nil {
		return err
	}
	a.stderr.Printf("wrote %s\n", f.out)
	if r.Disturbed != "" {
		a.stderr.Printf("warning: the probe was disturbed, so this host may be faster than its numbers: %s\n",
			r.Disturbed)
	}
	return writeProbe(a.stdout.Writer(), f.format, r)
}

// probeNetwork measures the network between the hosts of a job. Every rank of the job calls it; only rank 0
// prints.
func (a *app) probeNetwork(ctx context.Context, f probeFlags, self job.Process, of *jobenv.Job) error {
	oneHostErr := fmt.Errorf("%d ranks on one host would disturb each other, and have no network to measure: start %s "+
		"probe by itself", of.Size, a.name)
	if len(f.cores) > 0 {
		return usage(errors.New("--cores is for one host; as ranks of a job, probe measures the network between hosts"))
	}
	if of.LocalSize == of.Size {
		return usage(oneHostErr)
	}
	exchange, err := self.Exchange(of)
	if err != nil {
		return usage(err)
	}
	ports, err := connection.PortRangeFromEnv(a.environ)
	if err != nil {
		return usage(err)
	}
	m := tcp.Measuring{Exchange: exchange, Rank: of.Rank, Size: of.Size, Time: 200 * time.Millisecond, Ports: ports,
		Interface: cmp.Or(f.iface, jobenv.Variable(a.environ, jobenv.InterfaceVar))}
	if f.quick {
		m.Time, m.Rounds = 25*time.Millisecond, 8
	}
	n, err := m.Measure(ctx)
	switch {
	case err != nil:
		return err
	case len(n.Hosts) < 2:
		return usage(oneHostErr)
	case of.Rank > 0:
		return nil
	}
	if f.out != "" {
		if err := storeProbe(a.stderr, f.out, func(w io.Writer) error { return writeNetwork(w, "json", n) }); err != nil {
			return err
		}
	}
	return writeNetwork(a.stdout.Writer(), f.format, n)
}

// writeNetwork prints a network as a table or as JSON.
func writeNetwork(w io.Writer, format string, n tcp.Network) error {
	if format == "json" {
		return printJSON(w, n)
	}
	sig := func(x float64) string { return unit.FormatSig(x, 3) }
	t := texttab.Table{Columns: []texttab.Column{{Title: "from"}, {Title: "to"}, {Title: "one way (µs)", Right: true},
		{Title: "GB/s", Right: true}, {Title: "GB/s, both ways busy", Right: true}}}
	for _, p := range n.Pairs {
		t.Add(n.Hosts[p.From], n.Hosts[p.To], sig(p.LatencyUS), sig(p.GBps), sig(p.BothGBps))
	}
	if err := t.Write(w, 0); err != nil {
		return err
	}
	t = texttab.Table{Columns: []texttab.Column{{Title: "host, all at once"}, {Title: "out GB/s", Right: true},
		{Title: "in GB/s", Right: true}}}
	for h, r := range n.AtOnce {
		t.Add(n.Hosts[h], sig(r.OutGBps), sig(r.InGBps))
	}
	texttab.ForTerminal(w).Printf("\n")
	return t.Write(w, 0)
}

// writeProbe prints the limits of a host as a table or as JSON.
func writeProbe(w io.Writer, format string, r probe.Result) error {
	if format == "json" {
		return printJSON(w, r)
	}
	t := texttab.Table{Columns: []texttab.Column{{Title: "cores", Right: true}, {Title: "set per core", Right: true},
		{Title: "copy GB/s", Right: true}, {Title: "read GB/s", Right: true}}}
	for i, c := range r.Copy {
		read := ""
		if i < len(r.Read) && r.Read[i].Cores == c.Cores && r.Read[i].Bytes == c.Bytes {
			read = unit.FormatSig(r.Read[i].GBps, 3)
		}
		t.Add(fmt.Sprint(c.Cores), unit.FormatBytes(c.Bytes), unit.FormatSig(c.GBps, 3), read)
	}
	if err := t.Write(w, 0); err != nil {
		return err
	}
	t = texttab.Table{Columns: []texttab.Column{{Title: "one way"}, {Title: "us", Right: true}}}
	for _, h := range r.Hops {
		t.Add(fmt.Sprintf("cache line, core %d to %d", h.From, h.To), unit.FormatSig(h.US, 3))
	}
	if len(t.Lines) == 0 {
		return nil // a single core has no latencies
	}
	texttab.ForTerminal(w).Printf("\n")
	if err := t.Write(w, 0); err != nil || len(r.Exchange) == 0 {
		return err
	}
	t = texttab.Table{Columns: []texttab.Column{{Title: "cores", Right: true}, {Title: "set per core", Right: true},
		{Title: "exchange GB/s per core", Right: true}}}
	for _, c := range r.Exchange {
		t.Add(strconv.Itoa(c.Cores), unit.FormatBytes(c.Bytes), unit.FormatSig(c.GBps, 3))
	}
	texttab.ForTerminal(w).Printf("\n")
	return t.Write(w, 0)
}
