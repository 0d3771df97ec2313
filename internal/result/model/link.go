package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Link is a kind of connection between devices, with the three rates that
// people divide by. All are GB/s of one direction of one device.
type Link struct {
	Name      string
	Help      string
	Raw       float64 // signalling rate, as tools of the driver print it
	Line      float64 // what the vendor states
	Reachable float64 // what an application can get
	Source    string
	Curve     string // the named curve of a library that uses it well; "" where none is known
}

// links are the known ones. Reachable rates are the constants by which NCCL
// models a topology, or what the vendor's engineers state.
var links = []Link{
	{"nvlink-h100", "18 links of NVLink 4 (H100, H200)", 18 * 26.562, 450, 18 * 20.6,
		"nvidia-smi nvlink -s prints 26.562 a link; vendor 900 GB/s both ways; NCCL's constant is 20.6 a link", "nccl-h100"},
	{"nvlink-h200", "18 links of NVLink 4", 18 * 26.562, 450, 18 * 20.6, "as nvlink-h100", "nccl-h200"},
	{"nvlink-a100", "12 links of NVLink 3 (A100)", 12 * 26.562, 300, 12 * 20.0,
		"26.562 a link raw; vendor 600 GB/s both ways; NCCL's constant is 20 a link", ""},
	{"nvlink-b200", "18 links of NVLink 5 (B200)", 18 * 53.125, 900, 18 * 40.1,
		"53.125 a link raw; vendor 1800 GB/s both ways; NCCL's constant is 40.1 a link", ""},
	{"xgmi-mi300x", "7 links of Infinity Fabric (MI300X)", 7 * 64, 7 * 64, 7 * 48,
		"64 GB/s a link, about 48 of it usable", ""},
	{"pcie4-x16", "PCI Express 4, 16 lanes", 32, 31.5, 24, "16 GT/s a lane; 128b/130b; NCCL's constant is 24", ""},
	{"pcie5-x16", "PCI Express 5, 16 lanes", 64, 63, 48, "32 GT/s a lane; 128b/130b; NCCL's constant is 48", ""},
}

// Links lists the known links.
func Links() []Link { return append([]Link{}, links...) }

// FastestLink is the known link that carries most.
func FastestLink() Link {
	return slices.MaxFunc(links, func(a, b Link) int { return cmp.Compare(a.Raw, b.Raw) })
}

// slowestLink is the known link that gives an application least.
func slowestLink() Link {
	return slices.MinFunc(links, func(a, b Link) int { return cmp.Compare(a.Reachable, b.Reachable) })
}

// LinkOf is the link that a limit of a row is a rate of.
func LinkOf(limit string) (Link, bool) {
	return lists.First(links, func(l Link) bool {
		return slices.ContainsFunc(l.Ceilings(), func(c Ceiling) bool { return c.Name == limit })
	})
}

// Ceiling is one rate to hold a result against. A utilisation without the name
// of its ceiling means nothing.
type Ceiling struct {
	Name string
	GBs  float64
}

// US is the least time for so many bytes, in microseconds.
func (c Ceiling) US(traffic float64) float64 { return traffic / c.GBs / 1e3 }

// Ceilings are the three rates of a link.
func (l Link) Ceilings() []Ceiling {
	return []Ceiling{{l.Name + " raw", l.Raw}, {l.Name + " line", l.Line}, {l.Name + " reachable", l.Reachable}}
}

// Ceilings reads what --link takes: the name of a link gives its three rates,
// the name with raw, line or reachable one of them, and a number ("450 GB/s",
// "450") one of its own. Several are separated by commas; "" is none.
func Ceilings(text string) ([]Ceiling, error) {
	var out []Ceiling
	for _, item := range strings.Split(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		number := strings.TrimSpace(strings.TrimSuffix(strings.TrimSuffix(item, "GB/s"), "GBps"))
		if rate, err := strconv.ParseFloat(number, 64); err == nil {
			if !(rate > 0) || rate > 1e9 {
				return nil, fmt.Errorf("link %q: want a rate above 0 GB/s", item)
			}
			out = append(out, Ceiling{number + " GB/s", rate})
			continue
		}
		found, err := ceilingsNamed(item)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func ceilingsNamed(item string) ([]Ceiling, error) {
	for _, l := range links {
		if item == l.Name {
			return l.Ceilings(), nil
		}
		for _, c := range l.Ceilings() {
			if item == c.Name {
				return []Ceiling{c}, nil
			}
		}
	}
	names := lists.Map(links, func(l Link) string { return l.Name })
	return nil, suggest.Unknown("link", item, append(names, "a rate such as 450 GB/s"))
}

// Utilisation is the share of a ceiling that a sample reaches with the traffic
// it moves, from 0 to 1. Where the algorithm's traffic is not known it is that
// of 2(n-1)/n, the busbw of nccl-tests.
func Utilisation(s Sample, c Ceiling) float64 {
	moved := float64(s.Traffic)
	if moved == 0 {
		moved = float64(s.Bytes) * busFactor(s.Ranks)
	}
	return c.US(moved) / s.TimeUS
}

// Limit records in a timed all-reduce the least time that each ceiling allows
// its traffic. Where the algorithm is not known, the traffic is the least that
// any can do with.
func Limit(r *journal.Row, ceilings []Ceiling) {
	if r.Status != journal.OK || !isAllReduce(r) || r.NumRanks == nil || *r.NumRanks < 2 {
		return
	}
	s := sampleOf(*r)
	moved := float64(s.Traffic)
	if moved == 0 {
		moved = LeastTraffic(s.Ranks, s.Bytes)
	}
	for _, c := range ceilings {
		if r.Limits == nil {
			r.Limits = map[string]float64{}
		}
		r.Limits[c.Name] = c.US(moved)
	}
}
