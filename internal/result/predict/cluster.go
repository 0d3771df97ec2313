package predict

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

// Cluster is a set of equal nodes of GPUs. NVLink connects the GPUs of a node, and a network connects
// the nodes.
type Cluster struct {
	Name      string
	GPUs      int // per node
	Nodes     int
	NVLink    int     // generation; 0 if a file does not say
	NVLinkGBs float64 // reachable rate of one GPU in one direction
	NVLS      bool    // the switch within a node can add
	Network   string  // infiniband or ethernet; "" if a file does not say
	NICs      int     // per node
	NICGBs    float64 // rate of one NIC in one direction
	Levels    int     // levels of switches between nodes; the model ignores them
	GPU       string  // kind of GPU in Points; "" if it is another one
	Sources   []string

	Calibration *Calibration // nil if the model is not fitted to times of this cluster
}

// ethernet is the kind of network without measured times.
const ethernet = "ethernet"

// Ranks returns the number of GPUs.
func (c *Cluster) Ranks() int { return c.GPUs * c.Nodes }

// Describe returns the cluster's hardware in words.
func (c *Cluster) Describe() string {
	text := fmt.Sprintf("%d x %d GPUs, NVLink", c.Nodes, c.GPUs)
	if c.NVLink > 0 {
		text += fmt.Sprintf(" %d", c.NVLink)
	}
	text += fmt.Sprintf(" at %g GB/s", c.NVLinkGBs)
	if c.Nodes == 1 {
		return text
	}
	return text + fmt.Sprintf(", %d NICs of %g GB/s a node, %s, %s of switches", c.NICs, c.NICGBs,
		cmp.Or(c.Network, "a network"), unit.Plural(c.Levels, "level"))
}

//go:embed clusters/*.yaml
var clusterFiles embed.FS

// NodeKinds returns the built-in kinds of nodes, sorted. The name of a cluster consists of the kind,
// the GPUs per node and the number of nodes, such as h100-8x4.
func NodeKinds() []string {
	files, err := clusterFiles.ReadDir("clusters")
	if err != nil {
		panic("predict: " + err.Error())
	}
	names := lists.Map(files, func(e fs.DirEntry) string { return strings.TrimSuffix(e.Name(), ".yaml") })
	slices.Sort(names)
	return names
}

var clusterName = regexp.MustCompile(`^(.+)-([0-9]+)x([0-9]+)$`)

var sizedFile = regexp.MustCompile(`^(.+\.yaml):([0-9]+)x([0-9]+)$`)

// splitFile splits FILE.yaml:8x4 into the file, 8 GPUs and 4 nodes. Without numbers both are 0.
func splitFile(name string) (file string, gpus, nodes int) {
	m := sizedFile.FindStringSubmatch(name)
	if m == nil {
		return name, 0, 0
	}
	gpus, _ = strconv.Atoi(m[2])
	nodes, _ = strconv.Atoi(m[3])
	return m[1], gpus, nodes
}

// isFile reports whether the name of a cluster is the path of a file.
func isFile(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.Contains(name, "/") || sizedFile.MatchString(name)
}

// Digest returns the SHA-256 of a cluster file, or "" if name is not a file.
func Digest(name string) (string, error) {
	if !isFile(name) {
		return "", nil
	}
	file, _, _ := splitFile(name)
	data, err := infile.Read(file, infile.Config)
	return fmt.Sprintf("%x", sha256.Sum256(data)), err
}

// Find returns a cluster by its name, such as h100-8x4, or from a YAML file.
func Find(name string) (*Cluster, error) {
	if isFile(name) {
		return readFile(name)
	}
	m := clusterName.FindStringSubmatch(name)
	if m == nil {
		return nil, fmt.Errorf("cluster %q: want a kind of node, its GPUs and the number of nodes, such as h100-8x4 (kinds: "+
			"%s), or a file.yaml", name, strings.Join(NodeKinds(), ", "))
	}
	if !slices.Contains(NodeKinds(), m[1]) {
		return nil, suggest.Unknown("kind of node", m[1], NodeKinds())
	}
	data, err := clusterFiles.ReadFile("clusters/" + m[1] + ".yaml")
	if err != nil {
		return nil, err
	}
	c, err := Parse(m[1]+".yaml", data)
	if err != nil {
		return nil, err
	}
	gpus, err1 := strconv.Atoi(m[2])
	nodes, err2 := strconv.Atoi(m[3])
	if err1 != nil || err2 != nil || gpus < 1 || gpus > c.GPUs || nodes < 1 || nodes > maxNodes {
		return nil, fmt.Errorf("cluster %q: want 1 to %d GPUs in a node and 1 to %d nodes", name, c.GPUs, maxNodes)
	}
	c.Name, c.GPUs, c.Nodes = name, gpus, nodes
	return c, nil
}

// readFile reads a cluster from FILE.yaml, or FILE.yaml:8x4 for another size of it.
func readFile(name string) (*Cluster, error) {
	file, gpus, nodes := splitFile(name)
	data, err := infile.Read(file, infile.Config)
	if err != nil {
		return nil, fmt.Errorf("reading a cluster: %w", err)
	}
	c, err := Parse(file, data)
	if err != nil || file == name {
		return c, err
	}
	if gpus < 1 || gpus > c.GPUs || nodes < 1 || nodes > maxNodes {
		return nil, fmt.Errorf("cluster %q: want 1 to %d GPUs in a node and 1 to %d nodes", name, c.GPUs, maxNodes)
	}
	c.Name, c.GPUs, c.Nodes = fmt.Sprintf("%s-%dx%d", c.Name, gpus, nodes), gpus, nodes
	return c, nil
}

// parseFit reads the section fit of a cluster file.
func parseFit(r *yamlfile.Reader, n yamlfile.Node, what string) *Calibration {
	k := &Calibration{}
	thousandth := func(key string, into *float64, scale float64) yamlfile.Field {
		return yamlfile.Field{Key: key, Read: func(n yamlfile.Node, what string) {
			v, _ := r.Decimal(n, what, 3, 1, 1e9)
			*into = float64(v) / 1000 / scale
		}}
	}
	whole := func(key string, into *int) yamlfile.Field {
		return yamlfile.Field{Key: key, Read: func(n yamlfile.Node, what string) { *into, _ = r.Int(n, what, 1, 1<<30) }}
	}
	r.Struct(n, what, thousandth("latency", &k.Latency, 1), thousandth("rate", &k.Rate, 1),
		thousandth("network_latency", &k.NetworkLatency, 1), thousandth("network_rate", &k.NetworkRate, 1),
		yamlfile.Field{Key: "validated_by", Read: func(n yamlfile.Node, what string) {
			if s, ok := r.Text(n, what); ok {
				k.Errors.By = s.Text
			}
		}}, whole("times", &k.Errors.Points), thousandth("error_pct_median", &k.Errors.Median, 100),
		thousandth("error_pct_p90", &k.Errors.P90, 100), whole("min_nodes", &k.MinNodes), whole("max_nodes", &k.MaxNodes),
		yamlfile.Field{Key: "ops", Read: func(n yamlfile.Node, what string) {
			list, _ := r.Texts(n, what)
			k.Ops = lists.Map(list, func(s yamlfile.Scalar) string { return s.Text })
		}})
	return k
}

const (
	maxNodes = 1 << 14
	maxGPUs  = 1 << 10
	maxGBs   = 1e5
)

// Parse reads a cluster file; name appears in errors. It reports all faults at once, each with line
// and column.
func Parse(name string, data []byte) (*Cluster, error) {
	r, root := yamlfile.Parse(name, data, "cluster", "name, gpus_per_node, nodes, nvlink_gbs, nics_per_node and nic_gbs")
	if root == nil {
		return nil, r.Err()
	}
	c := &Cluster{}
	// text reads any text, or one of the words if there are any; then the key is optional.
	text := func(key string, into *string, words ...string) yamlfile.Field {
		return yamlfile.Field{Key: key, Optional: len(words) > 0, Read: func(n yamlfile.Node, what string) {
			if len(words) > 0 {
				*into, _ = r.Word(n, what, key, words...)
			} else if s, ok := r.Text(n, what); ok {
				*into = s.Text
			}
		}}
	}
	whole := func(key string, into *int, least, most int) yamlfile.Field {
		return yamlfile.Field{Key: key, Optional: key == "nvlink", Read: func(n yamlfile.Node, what string) {
			*into, _ = r.Int(n, what, least, most)
		}}
	}
	rate := func(key string, into *float64) yamlfile.Field { // GB/s with three decimals
		return yamlfile.Field{Key: key, Read: func(n yamlfile.Node, what string) {
			v, _ := r.Decimal(n, what, 3, 1, maxGBs*1000)
			*into = float64(v) / 1000
		}}
	}
	nvls := "no"
	r.Struct(root, "the cluster", text("name", &c.Name), whole("gpus_per_node", &c.GPUs, 1, maxGPUs),
		whole("nodes", &c.Nodes, 1, maxNodes),
		whole("nvlink", &c.NVLink, 1, 9), rate("nvlink_gbs", &c.NVLinkGBs), text("nvls", &nvls, "yes", "no"),
		text("network", &c.Network, "infiniband", ethernet), whole("nics_per_node", &c.NICs, 1, maxGPUs),
		rate("nic_gbs", &c.NICGBs), whole("switch_levels", &c.Levels, 0, 8),
		text("gpu", &c.GPU, measuredKinds()...),
		yamlfile.Field{Key: "fit", Optional: true, Read: func(n yamlfile.Node, what string) {
			c.Calibration = parseFit(r, n, what)
		}},
		yamlfile.Field{Key: "sources", Read: func(n yamlfile.Node, what string) {
			list, _ := r.Texts(n, what)
			c.Sources = lists.Map(list, func(s yamlfile.Scalar) string { return s.Text })
		}})
	if err := r.Err(); err != nil {
		return nil, err
	}
	if c.Name == "" || len(c.Sources) == 0 {
		return nil, errors.New(name + ": want a name, and sources that say where the numbers come from")
	}
	c.NVLS = nvls == "yes"
	return c, nil
}
