package workload

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/accel/loggp"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/result/llm"
	"github.com/kernbench/kernbench/internal/result/predict"
)

// clusterOption names the option for a cluster of GPUs, which has a network and a kind of GPU.
const clusterOption = "cluster"

func clusterOptions() []bench.Clause {
	return []bench.Clause{bench.Sweepable(bench.Option(clusterOption, bench.KindString, "", "cluster of GPUs whose "+
		"network and rates are taken, or several to compare: a kind of node ("+strings.Join(predict.NodeKinds(), ", ")+
		") with its GPUs and nodes such as h100-8x4, or a file.yaml (see 'kernbench docs models')"))}
}

// clusterOf returns the cluster of a point, or nil if it has none.
func clusterOf(p, options bench.Point) (*predict.Cluster, error) {
	name := point.ValueOf(p, options, clusterOption).String()
	if name == "" {
		return nil, nil
	}
	c, err := predict.Find(name)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", clusterOption, err)
	}
	return c, nil
}

// checkCluster returns an error if a point's cluster cannot be simulated.
func checkCluster(c *predict.Cluster, p, options bench.Point) error {
	if backend := options.At(bench.BackendName).String(); !isNetworkName(backend) {
		return fmt.Errorf("--%s is not for backend %s: its machine is described by --%s", clusterOption, backend,
			machine.Option)
	}
	if ranks := int(p.At(bench.RanksAxis).Int()); ranks > c.Ranks() {
		return fmt.Errorf("--%s %s has %d GPUs, and the step has %d ranks", clusterOption, c.Name, c.Ranks(), ranks)
	}
	if bench.FilePath(p, options, machine.Option) != "" {
		return machine.Refuse(p, options) // the file describes another network between the cluster's GPUs
	}
	n, err := clusterNetwork(c, p, options)
	if err != nil {
		return err
	}
	return n.Check(int(p.At(bench.RanksAxis).Int()))
}

// clusterNetwork returns the network of a cluster with the faults of a point.
func clusterNetwork(c *predict.Cluster, p, options bench.Point) (loggp.Network, error) {
	n, err := c.Simulated()
	if err != nil {
		return n, err
	}
	text, _ := machine.Faults(p, options)
	n.Faults, err = loggp.ParseFaultList(text)
	return n, err
}

// noteCluster records the cluster and its network in the row.
func noteCluster(s *bench.State, c *predict.Cluster) {
	s.Detail(machine.Option, c.Name)
	s.Detail(machine.Hash, fmt.Sprintf("%x", sha256.Sum256([]byte(c.NetworkFile()))))
	s.Detail("machine", c.Describe())
	s.Detail("sources", strings.Join(c.Sources, "; "))
}

// gpuOf returns the GPU whose rates a generated step reaches: --gpu, else the GPU of the cluster, else a default.
func gpuOf(c *predict.Cluster, name string) (llm.GPU, error) {
	switch {
	case name != autoGPU:
	case c == nil:
		name = defaultGPU
	case c.GPU == "":
		return llm.GPU{}, fmt.Errorf("--%s %s does not name its GPU: add the key gpu, or give --%s or --%s", clusterOption,
			c.Name, gpuOption, flopsAxis)
	default:
		name = c.GPU
	}
	g, err := llm.NamedGPU(name)
	if err != nil {
		return g, fmt.Errorf("--%s: %w", gpuOption, err)
	}
	return g, nil
}
