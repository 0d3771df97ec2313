package gpufused

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// orderProgram prints the order of tiles that order.cuh defines. It reads lines of rank, size, tiles
// and clusters, and answers each with the tiles of all clusters, one cluster after another.
const orderProgram = `
#define __device__ static
#define __forceinline__ inline
#include "order.cuh"
#include <stdio.h>
int main(void) {
	unsigned rank, size, tiles, clusters;
	while (scanf("%u %u %u %u", &rank, &size, &tiles, &clusters) == 4) {
		for (unsigned c = 0; c < clusters; c++) {
			unsigned count = tile_count(size, tiles, c, clusters);
			for (unsigned n = 0; n < count; n++) printf("%u ", nth_tile(rank, size, n, tiles, c, clusters));
			printf("; ");
		}
		printf("\n");
	}
}
`

type orderCase struct{ size, tiles, clusters int }

// orders returns the order that the kernels use: by case and rank, the tiles of each cluster.
func orders(t *testing.T, cases []orderCase) [][][][]int {
	t.Helper()
	program := filepath.Join(t.TempDir(), "order")
	compile := exec.Command("cc", "-O1", "-I.", "-x", "c", "-o", program, "-")
	compile.Stdin = strings.NewReader(orderProgram)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("compiling order.cuh: %v\n%s", err, out)
	}
	var asked strings.Builder
	for _, c := range cases {
		for rank := range c.size {
			fmt.Fprintln(&asked, rank, c.size, c.tiles, c.clusters)
		}
	}
	run := exec.Command(program)
	run.Stdin = strings.NewReader(asked.String())
	out, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(out), "\n")
	var all [][][][]int
	for _, c := range cases {
		var ranks [][][]int
		for range c.size {
			var clusters [][]int
			for _, list := range strings.Split(strings.TrimSuffix(lines[0], "; "), "; ") {
				var tiles []int
				for _, field := range strings.Fields(list) {
					tile, err := strconv.Atoi(field)
					if err != nil {
						t.Fatal(err)
					}
					tiles = append(tiles, tile)
				}
				clusters = append(clusters, tiles)
			}
			ranks, lines = append(ranks, clusters), lines[1:]
		}
		all = append(all, ranks)
	}
	return all
}

// checkOrder simulates the kernel: a cluster computes its tiles in order, and at one of its own it
// waits until all other ranks have computed it.
func checkOrder(c orderCase, ranks [][][]int) error {
	made := make([][]bool, c.size)
	for rank, clusters := range ranks {
		made[rank] = make([]bool, c.tiles)
		seen := make([]int, c.tiles)
		for _, tiles := range clusters {
			for _, tile := range tiles {
				if tile >= c.tiles {
					return fmt.Errorf("rank %d makes tile %d of %d", rank, tile, c.tiles)
				}
				seen[tile]++
			}
		}
		for tile, n := range seen {
			if n != 1 {
				return fmt.Errorf("rank %d makes tile %d %d times", rank, tile, n)
			}
		}
		most, least := 0, c.tiles
		for _, tiles := range clusters {
			most, least = max(most, len(tiles)), min(least, len(tiles))
		}
		if most-least > 1 {
			return fmt.Errorf("rank %d: one cluster makes %d tiles, another %d", rank, most, least)
		}
	}
	ready := func(rank, tile int) bool {
		if tile%c.size != rank {
			return true
		}
		for other := range c.size {
			if other != rank && !made[other][tile] {
				return false
			}
		}
		return true
	}
	left := make([][][]int, c.size)
	for rank, clusters := range ranks {
		left[rank] = append([][]int(nil), clusters...)
	}
	for going := true; going; {
		going = false
		for rank, clusters := range left {
			for i := range clusters {
				for len(clusters[i]) > 0 && ready(rank, clusters[i][0]) {
					made[rank][clusters[i][0]] = true
					clusters[i], going = clusters[i][1:], true
				}
			}
		}
	}
	for rank, clusters := range left {
		for i, tiles := range clusters {
			if len(tiles) > 0 {
				return fmt.Errorf("cluster %d of rank %d waits for ever at tile %d", i, rank, tiles[0])
			}
		}
	}
	return nil
}

// Every rank computes every tile once, the clusters' loads differ by at most one tile, and there is no
// deadlock.
func TestOrderOfTiles(t *testing.T) {
	var cases []orderCase
	for _, size := range []int{1, 2, 3, 4, 7, 8, 16} {
		for _, clusters := range []int{1, 2, 5, 16, 33} {
			for _, tiles := range []int{1, 2, 3, 16, 17, 40, 97, 128, 1024} {
				cases = append(cases, orderCase{size, tiles, clusters})
			}
		}
	}
	for i, ranks := range orders(t, cases) {
		if err := checkOrder(cases[i], ranks); err != nil {
			t.Errorf("%+v: %v", cases[i], err)
		}
	}
}

// The check notices own tiles that come first, a missing tile and a duplicate.
func TestOrderOfTilesIsChecked(t *testing.T) {
	for want, ranks := range map[string][][][]int{
		"waits for ever":       {{{0, 1}}, {{1, 0}}},
		"makes tile 1 0 times": {{{0}}, {{0, 1}}},
		"makes tile 0 2 times": {{{1, 0}, {0}}, {{0, 1}}},
		"one cluster makes":    {{{1, 0}, {}}, {{0}, {1}}},
	} {
		if err := checkOrder(orderCase{2, 2, 1}, ranks); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", ranks, err, want)
		}
	}
}
