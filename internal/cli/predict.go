package cli

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/imports"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/predict"
	"github.com/kernbench/kernbench/internal/workload/accuracy"
)

const fitLong = `Reads the output of nccl-tests, one or more runs of any collectives and node counts on
one cluster. It fits four factors of the model of the bench predict (latency and rate
within a node and between nodes), measures the error by leaving out one run after the
other, and writes a cluster file. It prints predictions for --nodes and --op; their
intervals grow with the distance from the measured node counts and collectives. The
file serves as --cluster FILE, or FILE:8x4 for another size, in the bench predict.

--cluster names the kind of node (such as h100) or a cluster file that describes it.
Without it, the name of the GPU in the log decides.`

const errorsLong = `Fits the model of the bench predict again to the measured times that kernbench contains,
each time without one rank count, GPU kind, generation of NVLink, node count or every
second size, and prints the errors on the times left out as a Markdown table. It takes
some seconds. 'kernbench docs models' has this table.

With --simulated it replays the same measured times on the simulated networks of their
clusters instead, as the bench workload does with --cluster, and published training
steps, and prints the differences. 'kernbench docs workload' has these tables.`

// fitFlags holds the flags of `predict fit`.
type fitFlags struct {
	ops          []string
	nodes        []int
	cluster, out string
}

func (a *app) predictCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "predict fit|errors",
		Short: "Fit the model of collectives to a cluster of GPUs, or check its errors",
		Long: "Fits the model behind the bench predict to your own cluster, or shows its errors. The times of a\nknown " +
			"cluster are predicted by 'run --bench predict'.",
		Example: fmt.Sprintf("  %[1]s predict fit two-nodes.log four-nodes.log --nodes 8,16 --out mine.yaml\n"+
			"  %[1]s run --bench predict --cluster mine.yaml:8x8\n  %[1]s predict errors", a.name),
		Args: subcommand("fit", "errors"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.fitCommand(), a.errorsCommand())
	return cmd
}

func (a *app) fitCommand() *cobra.Command {
	var f fitFlags
	cmd := &cobra.Command{
		Use:     "fit LOG...",
		Short:   "Fit the model of collectives to measured times of a cluster of GPUs",
		Long:    fitLong,
		Example: fmt.Sprintf("  %s predict fit two-nodes.log four-nodes.log --nodes 8,16 --out mine.yaml", a.name),
		Args:    arguments(1, -1, "LOGs of nccl-tests"),
		RunE:    func(_ *cobra.Command, logs []string) error { return a.calibrate(logs, f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.cluster, "cluster", "", "kind of node, or cluster `FILE`, that the logs are of")
	fl.IntSliceVar(&f.nodes, "nodes", nil, "node `COUNTS` to predict (default: the measured ones and twice the largest)")
	fl.StringSliceVar(&f.ops, "op", nil,
		"`NAMES` of the collectives to predict: "+strings.Join(predict.Ops, ", ")+" (default: the measured ones)")
	fl.StringVarP(&f.out, "out", "o", "cluster.yaml", "cluster `FILE` to write")
	return cmd
}

func (a *app) errorsCommand() *cobra.Command {
	var simulated bool
	cmd := &cobra.Command{
		Use:     "errors",
		Short:   "Leave whole systems out of the fit of the model, and print the errors on them",
		Long:    errorsLong,
		Example: fmt.Sprintf("  %[1]s predict errors\n  %[1]s predict errors --simulated", a.name),
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			if simulated {
				return a.simulationErrors()
			}
			return a.stdout.Printf("%s", texttab.Block(predict.ErrorTable(predict.LeaveOut())))
		},
	}
	cmd.Flags().BoolVar(&simulated, "simulated", false,
		"print the errors of the simulated network and of generated training steps instead")
	return cmd
}

// simulationErrors compares replayed workloads with published times.
func (a *app) simulationErrors() error {
	collectives, err := accuracy.Collectives()
	if err != nil {
		return err
	}
	steps, err := accuracy.Steps()
	if err != nil {
		return err
	}
	return a.stdout.Printf("%s\n%s", texttab.Block(accuracy.Table(collectives)), texttab.Block(accuracy.StepTable(steps)))
}

// calibrate fits the model to logs, writes a cluster file and prints predictions.
func (a *app) calibrate(logs []string, f fitFlags) error {
	if _, err := os.Stat(f.out); err == nil {
		return usage(fmt.Errorf("%s already exists: name another file with --out", f.out))
	}
	for _, op := range f.ops {
		if !slices.Contains(predict.Ops, op) {
			return usage(fmt.Errorf("unknown op %q: want %s", op, strings.Join(predict.Ops, ", ")))
		}
	}
	var runs [][]predict.Point
	device := ""
	for _, name := range logs {
		points, gpu, err := readLog(name)
		if err != nil {
			return usage(err)
		}
		runs, device = append(runs, points), gpu
	}
	base, err := baseCluster(f.cluster, device)
	if err != nil {
		return usage(err)
	}
	if base.Calibration, err = predict.Calibrate(base, runs); err != nil {
		return usage(err)
	}
	k := base.Calibration
	first := runs[0][0]
	perNode := first.Ranks / first.Nodes
	base.Name, base.Nodes, base.GPUs = "measured", k.MaxNodes, max(base.GPUs, perNode)
	base.Sources = append(base.Sources, "fit: "+strings.Join(logs, ", "))
	if err := journal.WriteFileAtomic(f.out, []byte(base.YAML())); err != nil {
		return err
	}
	a.stdout.Printf("Fitted to %s of %s: %s.\n", unit.Plural(len(slices.Concat(runs...)), "time"),
		unit.Plural(len(runs), "run"), k.Errors)
	a.stdout.Printf("Factors: latency %.2f, rate %.2f; between nodes latency %.2f, rate %.2f.\nWrote %s.\n\n",
		k.Latency,
		k.Rate, k.NetworkLatency, k.NetworkRate, f.out)
	base.GPUs = perNode
	return a.printPredictions(base, f)
}

// printPredictions prints a table of predictions for a calibrated cluster.
func (a *app) printPredictions(c *predict.Cluster, f fitFlags) error {
	k := c.Calibration
	nodes, ops := f.nodes, f.ops
	if len(nodes) == 0 {
		nodes = slices.Compact([]int{k.MinNodes, k.MaxNodes, 2 * k.MaxNodes})
	}
	if len(ops) == 0 {
		ops = k.Ops
	}
	table := texttab.Table{Columns: []texttab.Column{{Title: "op"}, {Title: "nodes", Right: true},
		{Title: "size", Right: true},
		{Title: "time", Right: true}, {Title: "90 % of errors within"}, {Title: "validated by"}}}
	for _, op := range ops {
		for _, n := range nodes {
			c.Nodes = n
			for bytes := int64(1 << 10); bytes <= 1<<30; bytes *= 32 {
				p, err := c.Predict(op, predict.Best, predict.Best, bytes)
				if err != nil {
					return usage(err)
				}
				v, within, by := c.Validate(op, bytes, true), "", predict.NotValidated
				if v.Known() {
					within, by = unit.FormatMicros(p.US/(1+v.P90))+" to "+unit.FormatMicros(p.US*(1+v.P90)), v.By
				}
				table.Add(op, fmt.Sprint(n), unit.FormatBytes(bytes), unit.FormatMicros(p.US), within, by)
			}
		}
	}
	return table.Write(a.stdout.Writer(), a.width)
}

// rankLine matches the lines in which nccl-tests lists its ranks. The groups are the host and the device.
var rankLine = regexp.MustCompile(`(?m)^#\s+Rank\s+\d+.*?\bon\s+(\S+)\s+device\s+\d+\s+\[\S+\]\s+(.+?)\s*$`)

// readLog reads the times of one run of nccl-tests and the name of its GPUs. If a size was measured in
// place and out of place, it keeps the faster time.
func readLog(name string) (points []predict.Point, device string, err error) {
	data, err := infile.Read(name, infile.Table)
	if err != nil {
		return nil, "", fmt.Errorf("reading measured times: %w", err)
	}
	file, err := imports.Read("nccl-tests", name, string(data), imports.Given{})
	if err != nil {
		return nil, "", err
	}
	hosts := map[string]bool{}
	for _, m := range rankLine.FindAllStringSubmatch(string(data), -1) {
		hosts[m[1]], device = true, m[2]
	}
	if len(hosts) == 0 {
		return nil, "", fmt.Errorf("%s: the number of nodes is unknown, because there is no list of ranks "+
			"(# Rank 0 ... on HOST device 0)", name)
	}
	for _, r := range file.Records {
		us := r.Metrics["time_us"]
		if r.Status != journal.OK || us <= 0 || r.Size <= 0 || !slices.Contains(predict.Ops, r.Op) ||
			r.Ranks%len(hosts) != 0 {
			continue
		}
		p := predict.Point{Op: r.Op, Nodes: len(hosts), Ranks: r.Ranks, Bytes: r.Size, US: us}
		at := slices.IndexFunc(points, func(q predict.Point) bool { return q.Op == p.Op && q.Bytes == p.Bytes })
		if at < 0 {
			points = append(points, p)
		} else {
			points[at].US = min(points[at].US, us)
		}
	}
	if len(points) == 0 {
		return nil, "", fmt.Errorf("%s: no time of %s", name, strings.Join(predict.Ops, ", "))
	}
	return points, device, nil
}

// baseCluster returns the cluster that the logs come from: a named kind of node or file, or the kind whose
// name is part of the name of the GPU.
func baseCluster(name, device string) (*predict.Cluster, error) {
	kinds := predict.NodeKinds()
	if name == "" {
		found, ok := lists.First(kinds, func(kind string) bool { return strings.Contains(strings.ToLower(device), kind) })
		if !ok {
			return nil, fmt.Errorf("the log's GPU %q is not one of %s: describe the nodes with --cluster FILE", device,
				strings.Join(kinds, ", "))
		}
		name = found
	}
	if slices.Contains(kinds, name) {
		name += "-8x1"
	}
	return predict.Find(name)
}
