package graph

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

// read reads the text of a graph, such as "torus: {...}".
func read(text string) (*Graph, error) {
	r, root := yamlfile.Parse("n.yaml", []byte(text), "network", "a graph")
	if root == nil {
		return nil, r.Err()
	}
	entries, _ := r.Mapping(root, "the network")
	g := Read(r, entries[0].Key, entries[0].Value)
	return g, r.Err()
}

const link = "bandwidth_gbs: 50, latency_ns: 500"

// samples has a small network of every generator.
var samples = map[string]string{
	"levels": "levels:\n- {name: island, size: 4, bandwidth_gbs: 400, latency_ns: 200}\n" +
		"- {name: leaf, size: 3, latency_ns: 500, oversubscription: 2, links: 2}\n",
	"fat_tree": "fat_tree: {radix: 4, " + link + ", oversubscription: 2}",
	"rails": "rails: {nodes: 4, ranks_per_node: 2, nodes_per_leaf: 2, spines: 2, island: {" + link + "}, rail: {" + link +
		"}, spine: {latency_ns: 700, oversubscription: 4}}",
	"rails without spines": "rails: {nodes: 3, ranks_per_node: 2, island: {" + link + "}, rail: {" + link + "}}",
	"dragonfly": "dragonfly: {groups: 5, routers_per_group: 2, ranks_per_router: 2, host: {" + link +
		"}, local: {" + link + "}, global: {" + link + "}}",
	"torus": "torus: {shape: [3, 2, 4], " + link + "}",
	"edges": "edges:\n- {from: 0..3, to: a, " + link + "}\n- {from: 4..6, to: b, " + link + "}\n" +
		"- {from: a, to: b, links: 2, " + link + "}\n- {from: 6, to: 0, one_way: true, name: short, " + link + "}\n",
}

// The sizes of the sample networks, and the links of some paths.
func TestGenerators(t *testing.T) {
	for name, want := range map[string]struct {
		ranks, nodes, links int
		from, to            int32
		path                string
	}{
		"levels":               {12, 12 + 3 + 1, 2 * (12 + 3*2), 0, 5, "0-island0 island0-leaf0# leaf0-island1# island1-5"},
		"fat_tree":             {16, 16 + 8 + 8 + 4, 2 * (16 + 16 + 16), 0, 3, "0-edge0 edge0-agg# agg#-edge1 edge1-3"},
		"rails":                {8, 8 + 4 + 4 + 2, 2 * (8 + 8 + 8), 0, 4, "0-leaf0 leaf0-spine# spine#-leaf1 leaf1-4"},
		"rails without spines": {6, 6 + 3 + 2, 2 * (6 + 6), 0, 3, ""},
		"dragonfly":            {20, 20 + 10, 2 * (20 + 5 + 10), 0, 2, "0-router0 router0-router1 router1-2"},
		"torus":                {24, 24, 2 * (24 + 12 + 24), 0, 2, "0-2"},
		"edges":                {7, 9, 2*9 + 1, 6, 0, "short"},
	} {
		g, err := read(samples[name])
		if err != nil || g.Ranks != want.ranks || len(g.Nodes) != want.nodes || len(g.Links) != want.links || g.Text == "" {
			t.Errorf("%s: %v; %+v", name, err, g)
			continue
		}
		r := must.Get(NewRoutes(g, nil, g.Ranks))(t)
		var names []string
		for _, i := range r.Path(want.from, want.to) {
			names = append(names, g.Links[i].Name)
		}
		if got := strings.Join(names, " "); want.path != "" && !similar(got, want.path) {
			t.Errorf("%s: path %q, want %q", name, got, want.path)
		}
	}
	g := must.Get(read(samples["levels"]))(t)
	if rate := g.Links[len(g.Links)-1].Rate; rate != 400e6*4/2/2 {
		t.Errorf("an uplink of an over-subscribed level: %d", rate)
	}
	g = must.Get(read(samples["rails"]))(t)
	if rate := g.Links[len(g.Links)-1].Rate; rate != 50e6*2/4/2 {
		t.Errorf("an over-subscribed spine link: %d", rate)
	}
}

// similar compares names of links; # in want stands for any number or none.
func similar(got, want string) bool {
	strip := func(s string) string {
		for _, kind := range []string{"agg", "spine", "leaf", "core"} {
			for i := range 9 {
				s = strings.ReplaceAll(s, fmt.Sprint(kind, i), kind)
			}
		}
		return strings.NewReplacer("#2", "", "#", "").Replace(s)
	}
	return strip(got) == strip(want)
}

// naive returns the cost of the best path from every node to a rank: ranks passed and links, by Bellman-Ford.
func naive(g *Graph, target int32, dead map[int32]bool) [][2]int {
	cost := make([][2]int, len(g.Nodes))
	for i := range cost {
		cost[i] = [2]int{1 << 30, 0}
	}
	cost[target] = [2]int{}
	for changed := true; changed; {
		changed = false
		for i, l := range g.Links {
			c := [2]int{cost[l.To][0], cost[l.To][1] + 1}
			if l.To < int32(g.Ranks) && l.To != target {
				c[0]++
			}
			if !dead[int32(i)] && cost[l.To][0] < 1<<30 && slices.Compare(c[:], cost[l.From][:]) < 0 {
				cost[l.From], changed = c, true
			}
		}
	}
	return cost
}

// Paths have the fewest ranks and then the fewest links, whatever links are dead. Equal pairs get equal paths.
func TestPaths(t *testing.T) {
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range samples {
			if !yield(name) {
				return
			}
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		g := must.Get(read(samples[rapid.SampledFrom(names).Draw(t, "network")]))(t)
		dead := map[int32]bool{}
		for range rapid.IntRange(0, 3).Draw(t, "number of dead links") {
			dead[int32(rapid.IntRange(0, len(g.Links)-1).Draw(t, "dead link"))] = true
		}
		r := must.Get(NewRoutes(g, dead, g.Ranks))(t)
		unreachable := false
		for target := range int32(g.Ranks) {
			best := naive(g, target, dead)
			for source := range int32(g.Ranks) {
				path := r.Path(source, target)
				have := [2]int{0, len(path)}
				for _, i := range path {
					if to := g.Links[i].To; to < int32(g.Ranks) && to != target {
						have[0]++
					}
					if dead[i] {
						t.Fatalf("the path from %d to %d takes the dead link %s", source, target, g.Links[i].Name)
					}
				}
				lost := best[source][0] == 1<<30
				unreachable = unreachable || lost
				if lost != (path == nil && source != target) || !lost && have != best[source] {
					t.Fatalf("path from %d to %d: %v, want %v", source, target, have, best[source])
				}
			}
		}
		if isolated := g.Isolated(dead, g.Ranks); (len(isolated) > 0) != unreachable {
			t.Fatalf("isolated %v, but unreachable: %v", isolated, unreachable)
		}
	})
}

// Different pairs spread over equally good links.
func TestSpread(t *testing.T) {
	g := must.Get(read("fat_tree: {radix: 8, " + link + "}"))(t)
	r := must.Get(NewRoutes(g, nil, g.Ranks))(t)
	used := map[string]int{}
	for source := range int32(64) {
		for target := int32(64); target < 128; target++ {
			used[g.Links[r.Path(source, target)[2]].Name]++
		}
	}
	for name, n := range used { // 4,096 paths over 64 links from 16 aggregation switches to 4 of 16 cores each
		if len(used) != 64 || n < 32 || n > 128 {
			t.Errorf("%d links; %d paths over %s", len(used), n, name)
		}
	}
}

// Every fault of a file has its position and says what would be right.
func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"torus: {shape: [3, 0], " + link +
			"}": "n.yaml:1:20: torus.shape: want a whole number from 1",
		"torus: {shape: [], " + link +
			"}": "torus.shape: the list is empty",
		"torus: {shape: [2048, 2048], " + link +
			"}": "more than 1048576 nodes",
		"torus: {shape: 4, " + link + "}": "want a list",
		"fat_tree: {radix: 5, " + link +
			"}": "radix must be even, have 5",
		"fat_tree: {radix: 4, bandwidth: 50, latency_ns: 3}":                `did you mean "bandwidth_gbs"`,
		"levels:\n- {name: a, size: 2, latency_ns: 1}\n":                    `n.yaml:2:3: levels[0]: the key "bandwidth_gbs" is missing`,
		"levels:\n- {name: a, links: 0, size: 0, " + link + "}\n- {nam: b}": "n.yaml:3:4: levels[1]: unknown key \"nam\"",
		"levels:\n- {name: a b, size: 2, " + link +
			"}\n": "want a name without blanks",
		"levels:\n- {name: a, size: 2, " + link + "}\n- {name: b, size: 2, oversubscription: 2, " + link +
			"}": "exclude each other",
		"rails: {nodes: 4, ranks_per_node: 2, spines: 1, island: {" + link + "}, rail: {" + link +
			"}}": "belong together",
		"rails: {nodes: 4, ranks_per_node: 2, nodes_per_leaf: 2, island: {" + link + "}, rail: {" + link +
			"}}": "2 leaves of a rail need spines",
		"dragonfly: {groups: 2, routers_per_group: 1}":           `the key "ranks_per_router" is missing`,
		"edges:\n- {from: 0, to: 0, " + link + "}\n":             "n.yaml:2:17: edges: a link from node 0 to itself",
		"edges:\n- {from: 0, to: 2, " + link + "}\n":             "there is no rank 1, but 2 others",
		"edges:\n- {from: a, to: b, " + link + "}\n":             "no node is a rank",
		"edges:\n- {from: 3..1, to: b, " + link + "}\n":          "want a range of ranks such as 0..7",
		"edges:\n- {from: 007, to: b, " + link + "}\n":           "a rank is a number",
		"edges:\n- {from: 0..1, to: b, name: x, " + link + "}\n": `the name "x" stands for more than one link`,
		"edges: []\n": "the list is empty",
	} {
		if g, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %+v, %v; want %q", text, g, err, want)
		}
	}
}
