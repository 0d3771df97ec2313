package graph

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

// readDragonfly reads a dragonfly (Kim et al., 2008). The routers of a group are connected with each other. Every pair
// of groups is connected by global_links links, which the routers of a group take in turns. Messages take shortest
// paths, and never a detour through another group.
func readDragonfly(f *file, n yamlfile.Node, what string) *builder {
	var groups, routers, per int
	global := 1
	var host, local, far Spec
	f.Struct(n, what, f.IntField("groups", &groups, 1, maxRanks), f.IntField("routers_per_group", &routers, 1, 1024),
		f.IntField("ranks_per_router", &per, 1, 1024), f.IntField("global_links", &global, 1, 1024).Opt(),
		f.link("host", &host), f.link("local", &local), f.link("global", &far))
	if !f.fits(n, what, maxRanks, max(groups, 1), max(routers, 1), max(per, 1)) ||
		!f.fits(n, what, maxLinks, max(groups, 1), max(groups, 1), global) ||
		!f.fits(n, what, maxLinks, max(groups, 1), max(routers, 1), max(routers, 1)) {
		return nil
	}
	b := newBuilder(groups * routers * per)
	router := b.switches("router", groups*routers)
	b.attach("host", 0, b.Ranks, router, per, host)
	for g := range groups {
		for i := range routers {
			for j := range i {
				b.connect("local", router+int32(g*routers+j), router+int32(g*routers+i), local)
			}
		}
	}
	used := make([]int, groups) // global links of each group so far
	take := func(g int) int32 {
		used[g]++
		return router + int32(g*routers+(used[g]-1)%routers)
	}
	for g := range groups {
		for h := range g {
			for range global {
				b.connect("global", take(h), take(g), far)
			}
		}
	}
	b.Text = fmt.Sprintf("dragonfly of %d groups of %d routers with %d ranks each", groups, routers, per)
	return b
}
