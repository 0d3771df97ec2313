package doctor

import (
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/internal/host/cuda"
)

// GPU is what is known of one.
type GPU struct {
	Name      string
	Bytes     uint64
	Compute   int // capability: 90 is 9.0
	Mode      string
	Multicast bool
	Reaches   []int // the others whose memory it can use, by number
}

// daemonProgram lets ranks share a GPU.
const daemonProgram = "nvidia-cuda-mps-control"

// gpus says which GPUs there are, or why not, and whether ranks can share one.
func (m Machine) gpus() []Finding {
	list, err := m.GPUs()
	if err != nil {
		return []Finding{{"gpu", "GPUs", No, firstLine(err.Error())}}
	}
	findings := []Finding{}
	for i, g := range list {
		detail := fmt.Sprintf("%s, %s, compute capability %d.%d, compute mode %s", g.Name, size(g.Bytes), g.Compute/10,
			g.Compute%10, g.Mode)
		if g.Multicast {
			detail += ", multicast"
		}
		if len(g.Reaches) > 0 {
			detail += fmt.Sprintf(", reaches the memory of %s", strings.Trim(fmt.Sprint(g.Reaches), "[]"))
		}
		findings = append(findings, Finding{"gpu", fmt.Sprintf("GPU %d", i), Yes, detail})
	}
	path, err := m.Find(daemonProgram)
	if err != nil {
		return append(findings, Finding{"gpu", "MPS", No, "ranks cannot share a GPU: " + err.Error()})
	}
	return append(findings, Finding{"gpu", "MPS", Yes, path})
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// localGPUs asks the driver.
func localGPUs() ([]GPU, error) {
	driver, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	devices, err := driver.Devices()
	if err != nil {
		return nil, err
	}
	var list []GPU
	for _, d := range devices {
		g := GPU{Name: d.Name, Bytes: d.Bytes, Mode: d.Mode(), Multicast: d.Has(cuda.Multicast)}
		if g.Compute, err = d.Compute(); err != nil {
			return nil, err
		}
		for _, other := range devices {
			if other == d {
				continue
			}
			if can, err := d.Reaches(other); err == nil && can {
				g.Reaches = append(g.Reaches, other.Ordinal)
			}
		}
		list = append(list, g)
	}
	return list, nil
}
