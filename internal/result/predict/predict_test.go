package predict

import (
	"math"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/model"
)

// On sizes that the fit has not seen, predictions within a node are as accurate as docs/models.md
// states, and the stated error matches the one computed here.
func TestLeftOut(t *testing.T) {
	for kind, curve := range map[string]string{"h100": "nccl-h100", "h200": "nccl-h200"} {
		table := must.Get(model.NamedCurve(curve))(t)
		f := must.Get(fitCurve(curve))(t)
		if e := f.errors[0]; e.Points != 18 || e.Median > 0.045 || e.P90 > 0.145 {
			t.Errorf("%s: %+v", curve, e)
		}
		c := must.Get(Find(kind + "-8x1"))(t)
		e, why := c.Validation(1<<20, true)
		worse := 0
		for i, p := range table.Ranks[8] {
			got, err := c.Predict(Best, Best, p.Bytes)
			if off := math.Abs(got.US/p.US - 1); err != nil || i%2 == 1 && off > e.P90 {
				worse++
			}
		}
		if why != "" || e.Points != 6 || worse > 1 {
			t.Errorf("%s: %+v (%s), %d of the sizes left out are worse than the percentile", kind, e, why, worse)
		}
	}
}

// A curve that the model cannot follow has a large error, so validation can fail.
func TestErrorShows(t *testing.T) {
	table := &model.Table{Name: "odd", Ranks: map[int][]model.TablePoint{8: nil}}
	for i := range 12 {
		us := 10.0
		if i%2 == 1 {
			us = 1000
		}
		table.Ranks[8] = append(table.Ranks[8], model.TablePoint{Bytes: 512 << i, US: us})
	}
	if e := fitTable(table, 370).errors[8]; e.Points != 6 || e.Median < 0.9 {
		t.Errorf("%+v", e)
	}
}

// Predictions without published times to compare with give the reason.
func TestNotValidated(t *testing.T) {
	for name, want := range map[string]string{"h100-8x4": "between nodes", "b200-8x1": "of this GPU",
		"a100-4x1": "of this GPU", "h100-6x1": "no 6 ranks"} {
		c := must.Get(Find(name))(t)
		if _, why := c.Validation(1<<20, true); !strings.Contains(why, want) {
			t.Errorf("%s: %q, want %q", name, why, want)
		}
	}
	c := must.Get(Find("h100-8x1"))(t)
	if _, why := c.Validation(1<<20, false); !strings.Contains(why, "own choice") {
		t.Errorf("a single algorithm: %q", why)
	}
	if _, why := c.Validation(1<<30, true); !strings.Contains(why, "outside") {
		t.Errorf("a size that was not published: %q", why)
	}
}

// The curve of a cluster contains the cluster and its parts, and states the error of each.
func TestTable(t *testing.T) {
	c := must.Get(Find("h100-8x4"))(t)
	table, err := c.Table()
	if err != nil || len(table.Ranks) != 5 || !strings.Contains(table.Source, "from 8 ranks on: median error") ||
		!strings.Contains(table.Source, "from 16 ranks on: not validated: no published times between nodes") {
		t.Errorf("%+v, %v", table, err)
	}
	node := must.Get(Find("h100-8x1"))(t)
	for ranks, on := range map[int]*Cluster{8: node, 32: c} {
		want, err := on.Predict(Best, Best, 1<<20)
		if us, bad := table.US(ranks, 1<<20); err != nil || bad != nil || us != want.US {
			t.Errorf("%d ranks: %v us, want %v; %v %v", ranks, us, want.US, err, bad)
		}
	}
}

// Every built-in cluster describes its hardware and cites its sources.
func TestClusters(t *testing.T) {
	for _, kind := range NodeKinds() {
		c := must.Get(Find(kind + "-8x2"))(t)
		network := "infiniband"
		if strings.HasSuffix(kind, "-eth") {
			network = "ethernet"
		}
		if c.NVLink < 3 || c.Network != network || c.NICs != 8 || c.Levels < 1 || len(c.Sources) != 3 ||
			!strings.Contains(c.Describe(), "2 x 8 GPUs, NVLink") {
			t.Errorf("%+v: %s", c, c.Describe())
		}
	}
	if names := strings.Join(NodeKinds(), " "); names != "a100 a100-eth b200 b200-eth h100 h100-eth h200 h200-eth" {
		t.Errorf("%s", names)
	}
}

// Predictions respect physics: more bytes take longer, the best is the fastest of all, more nodes are
// not faster, and no rate exceeds the link's.
func TestSane(t *testing.T) {
	for _, kind := range NodeKinds() {
		last := map[int]float64{}
		for _, nodes := range []string{"1", "2", "16", "256"} {
			c := must.Get(Find(kind + "-8x" + nodes))(t)
			before := 0.0
			for bytes := int64(1024); bytes <= 1<<30; bytes *= 4 {
				best, err := c.Predict(Best, Best, bytes)
				if err != nil || best.US <= before || best.US < last[int(bytes)]*0.999 {
					t.Errorf("%s, %d bytes: %+v after %v, on fewer nodes %v; %v", c.Name, bytes, best, before, last[int(bytes)], err)
				}
				for _, a := range Algorithms {
					if p, err := c.Predict(a, Best, bytes); err == nil && p.US < best.US {
						t.Errorf("%s, %d bytes: %+v is better than the best, %+v", c.Name, bytes, p, best)
					}
				}
				n := float64(c.Ranks())
				if gbs := float64(bytes) / best.US / 1e3; c.Nodes == 1 && gbs*(1+1/n) > c.NVLinkGBs ||
					c.Nodes > 1 && gbs > c.NetworkGBs() {
					t.Errorf("%s, %d bytes: %v GB/s", c.Name, bytes, gbs)
				}
				before, last[int(bytes)] = best.US, best.US
			}
		}
	}
}

// Unknown names and faulty files cause errors that suggest the correct form.
func TestFind(t *testing.T) {
	for name, want := range map[string]string{"h100": "h100-8x4", "h1oo-8x4": "h100", "h100-9x1": "1 to 8 GPUs",
		"none.yaml": "no such file"} {
		if _, err := Find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	_, err := Parse("c.yaml", []byte("name: x\ngpus_per_node: 0\nnodes: 1\nnvlink_gbs: fast\nnics_per_node: "+
		"1\nnic_gbs: 1\nswitch_levels: 1\nsources: [me]\ncolour: red\n"))
	for _, want := range []string{"c.yaml:2:16", "c.yaml:4:13", "colour"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
}
