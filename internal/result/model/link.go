package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Link is a kind of connection between devices. It has three rates because reports
// differ in which one they divide by. All rates are GB/s of one direction of one device.
type Link struct {
	Name      string
	Raw       float64 // signalling rate, as the driver's tools print it
	Line      float64 // the vendor's specification
	Reachable float64 // the most that an application gets
	Curve     string  // name of a published curve that uses this link well; "" if there is none
}

// links lists the known links. The reachable rates are the constants of NCCL's topology
// model (src/graph/topo.h), or figures stated by the vendor's engineers. For NVLink,
// nvidia-smi nvlink -s prints the raw rate of a single link, and the vendor states the
// sum of both directions.
var links = []Link{
	// 18 links of NVLink 4: 26.562 GB/s raw, NCCL's constant 20.6; vendor 900 GB/s both ways.
	{"nvlink-h100", 18 * 26.562, 450, 18 * 20.6, "nccl-h100"},
	{"nvlink-h200", 18 * 26.562, 450, 18 * 20.6, "nccl-h200"},
	// 12 links of NVLink 3: NCCL's constant 20; vendor 600 GB/s both ways.
	{"nvlink-a100", 12 * 26.562, 300, 12 * 20.0, ""},
	// 18 links of NVLink 5: NCCL's constant 40.1; vendor 1800 GB/s both ways.
	{"nvlink-b200", 18 * 53.125, 900, 18 * 40.1, ""},
	// 7 links of Infinity Fabric: 64 GB/s each, about 48 GB/s usable.
	{"xgmi-mi300x", 7 * 64, 7 * 64, 7 * 48, ""},
	// 16 lanes of 16 and 32 GT/s with 128b/130b encoding; NCCL's constants 24 and 48.
	{"pcie4-x16", 32, 31.5, 24, ""},
	{"pcie5-x16", 64, 63, 48, ""},
}

// Links returns the known links.
func Links() []Link { return slices.Clone(links) }

// FastestLink returns the known link with the highest raw rate.
func FastestLink() Link {
	return slices.MaxFunc(links, func(a, b Link) int { return cmp.Compare(a.Raw, b.Raw) })
}

// slowestLink returns the known link with the lowest reachable rate.
func slowestLink() Link {
	return slices.MinFunc(links, func(a, b Link) int { return cmp.Compare(a.Reachable, b.Reachable) })
}

// LinkOf returns the link to which a row's limit belongs: the limit's name is the name of
// one of the link's ceilings.
func LinkOf(limit string) (Link, bool) {
	return lists.First(links, func(l Link) bool {
		return slices.ContainsFunc(l.Ceilings(), func(c Ceiling) bool { return c.Name == limit })
	})
}

// Ceiling is a named rate to compare a result with. Reports always print the name,
// because a utilisation means nothing without its denominator.
type Ceiling struct {
	Name string
	GBs  float64
}

// US returns the least time in microseconds in which traffic bytes can cross.
func (c Ceiling) US(traffic float64) float64 { return traffic / c.GBs / 1e3 }

// Ceilings returns the three rates of the link.
func (l Link) Ceilings() []Ceiling {
	return []Ceiling{{l.Name + " raw", l.Raw}, {l.Name + " line", l.Line}, {l.Name + " reachable", l.Reachable}}
}

// Ceilings parses the value of --link, a comma-separated list. The name of a link stands
// for its three rates, the name followed by raw, line or reachable for one of them, and a
// number ("450 GB/s" or "450") for itself. An empty text gives no ceiling.
func Ceilings(text string) ([]Ceiling, error) {
	var out []Ceiling
	for item := range strings.SplitSeq(text, ",") {
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
		named, err := ceilingsNamed(item)
		if err != nil {
			return nil, err
		}
		out = append(out, named...)
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

// Utilisation returns the share of a ceiling that the sample's traffic reaches, from 0
// to 1. If the algorithm's traffic is not known, it assumes 2(n-1)/n of the size, so that
// the rate is the busbw of nccl-tests.
func Utilisation(s Sample, c Ceiling) float64 {
	moved := float64(s.Traffic)
	if moved == 0 {
		moved = float64(s.Bytes) * busFactor(s.Ranks)
	}
	return c.US(moved) / s.TimeUS
}

// Limit adds to a timed all-reduce, for each ceiling, the least time in which its traffic
// can cross. If the algorithm's traffic is not known, it takes the least traffic of any
// algorithm, so that no row is called faster than possible by mistake.
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

// Traffic returns how many bytes the busiest rank sends to or receives from its peers in
// an all-reduce by the named algorithm. It uses the formula of the algorithm's
// registration, or else counts the steps of its schedule. known is false if it has neither.
func Traffic(algorithm string, ranks int, bytes int64) (moved int64, known bool) {
	if ranks < 1 || bytes < 0 {
		return 0, false
	}
	size := float64(bytes)
	info, _ := schedule.Lookup(allReduce, baseName(algorithm))
	if info.Traffic != nil {
		return int64(info.Traffic(ranks, size)), true
	}
	t, known := cost(info.Name, ranks)
	if !known {
		return 0, false
	}
	return int64(float64(max(t.Sent.Max, t.Read.Max, t.Written.Max)) / costElements * size), true
}

// costElements is the length of the vector whose schedule is counted. Every usual number
// of ranks divides it, so that all ranks have equal shares.
const costElements = 1 << 10 * 3 * 5 * 7

// costs caches the results of cost, because a sweep asks for the same few again and again.
var costs sync.Map // costKey -> schedule.Traffic

type costKey struct {
	algorithm string
	ranks     int
}

// cost counts the traffic of a schedule with costElements elements. It returns false if there is no schedule of that
// name for that many ranks.
func cost(algorithm string, ranks int) (schedule.Traffic, bool) {
	key := costKey{algorithm, ranks}
	if t, has := costs.Load(key); has {
		return t.(schedule.Traffic), true
	}
	s, err := schedule.New(allReduce, algorithm, schedule.Params{Ranks: ranks, Count: costElements})
	if err != nil {
		return schedule.Traffic{}, false
	}
	t, err := schedule.Cost(s)
	if err != nil {
		return schedule.Traffic{}, false
	}
	costs.Store(key, t)
	return t, true
}

// LeastTraffic returns the bytes that the busiest rank must move with any algorithm: the
// traffic of two-stage, or (1 + 1/n) times the size if a switch adds, which is less from
// three ranks on.
func LeastTraffic(ranks int, bytes int64) float64 {
	return float64(bytes) * min(busFactor(ranks), 1+1/float64(max(ranks, 1)))
}

// sameSteps reports whether two algorithms move the same data in the same number of steps
// with that many ranks, so that equal times are expected.
func sameSteps(a, b string, ranks int) bool {
	ta, oka := cost(baseName(a), ranks)
	tb, okb := cost(baseName(b), ranks)
	return oka && okb && ta == tb
}

// baseName returns the algorithm's name without the chunk size, the number of blocks and
// the steps: prefix, none of which changes the traffic.
func baseName(algorithm string) string {
	choice, _ := tuning.ParseChoice(algorithm)
	return choice.Algorithm
}
