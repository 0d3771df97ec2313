package gpugemm

import (
	"cmp"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/host/cuda"
)

// plan is a way to compute a product on Hopper.
type plan interface {
	String() string
	launches(d *device, p problem, at []place) ([]*cuda.Launch, error)
}

// costModel predicts the time of a plan, in microseconds. Its coefficients were fitted to measured times of all plans
// for the shapes in testdata, on the GPU of that name.
type costModel struct {
	gpu string
	// atOnce is the number of blocks that run at once, by the size of their clusters. All blocks of a cluster run in one
	// GPC, a group of multiprocessors. Some of these stay idle if their number is not a multiple of the cluster size.
	atOnce map[int]int

	start, turns     float64 // of the start and end of a kernel, and in addition if warpgroups take turns
	column, fetch    float64 // of one step of a tile: for each column, and for each byte that is fetched
	pairA            float64 // additional time of a step for pairs of blocks that share A
	store, storeTurn float64 // of a tile: for each column
	part             float64 // of adding up the parts of k
	promote          float64 // additional time of a step of e4m3, whose sums are added up in f32
	memory, power    float64 // for each byte of memory, and for each operation: limits of the whole GPU
	skinnyStart      float64
	skinnyColumn     float64
	skinnyFetch      float64
	skinnyPart       float64
}

// models lists the GPUs that were measured. Other Hopper GPUs use the first.
var models = []costModel{{
	gpu: "NVIDIA H200", atOnce: map[int]int{1: 132, 2: 132, 3: 117, 4: 120, 5: 110, 6: 102},
	start: 2.211, turns: 0.4419, column: 0.002747, fetch: 7.779e-6, pairA: 0.01206,
	store: 0.007319, storeTurn: 0.003754, part: 2.446, promote: 0.18,
	memory: 2.553e-7, power: 1.29e-9,
	skinnyStart: 2.14, skinnyColumn: 0.003064, skinnyFetch: 6.823e-6, skinnyPart: 2.822,
}}

const modelMultiprocessors = 132

// modelFor returns the model of a GPU.
func modelFor(name string) *costModel {
	at := slices.IndexFunc(models, func(m costModel) bool { return m.gpu == name })
	return &models[max(at, 0)]
}

// blocksAtOnce returns how many blocks run at once on a number of multiprocessors, in clusters of a size.
func (m *costModel) blocksAtOnce(cluster, multiprocessors int) int {
	return m.atOnce[cluster] * multiprocessors / modelMultiprocessors
}

// combine returns the time of activities that overlap: little more than the longest one, unless several take about as
// long. It is a p-norm of the times.
func combine(times ...float64) float64 {
	const sharpness = 6 // p of the norm: two equal times take 12 % longer than one
	sum := 0.0
	for _, t := range times {
		sum += math.Pow(t, sharpness)
	}
	return math.Pow(sum, 1./sharpness)
}

// limits returns the times for the whole GPU to move a product's bytes and to do its arithmetic.
func (m *costModel) limits(p problem) (memory, power float64) {
	return float64(p.bytesA()+p.bytesB()+p.bytesC()) * m.memory,
		2 * float64(p.m) * float64(p.n) * float64(p.k*p.operand.Size()/2) * m.power
}

func divideUp(a, b int) float64 { return float64((a + b - 1) / b) }

// tiles predicts the time of a plan of tiles.
func (m *costModel) tiles(t tilePlan, p problem, multiprocessors int) float64 {
	steps := divideUp(p.k*p.operand.Size()/stageBytes, t.parts)
	waves := divideUp(t.rows*t.wide, max(1, m.blocksAtOnce(t.cluster(), multiprocessors)/t.cluster()))
	cols, fetched := float64(t.cols), float64(tileRows+t.cols)
	start, store, more := m.start, m.store, 0.0
	switch t.share {
	case shareA:
		fetched, more = float64(tileRows)/2+cols, m.pairA
	case shareB:
		fetched = tileRows + cols/2
	}
	switch t.kind {
	case turnTiles:
		start, store = start+m.turns, m.storeTurn
	case fp8Tiles:
		more += m.promote
	}
	work := waves * (steps*(combine(cols*m.column, fetched*stageBytes*m.fetch)+more) + cols*store)
	if t.parts > 1 {
		work += m.part
	}
	memory, power := m.limits(p)
	return start + combine(work, memory, power)
}

// skinny predicts the time of a plan for few rows.
func (m *costModel) skinny(s skinnyPlan, p problem, multiprocessors int) float64 {
	cols := groupCols * s.groups
	blocks := int(divideUp(p.n, cols)) * s.split
	steps := divideUp(p.k*p.operand.Size()/stageBytes, s.split)
	step := max(float64(cols)/tileRows*float64(s.rows)*m.skinnyColumn, float64(cols+s.rows)*stageBytes*m.skinnyFetch)
	work := divideUp(blocks, multiprocessors) * steps * step
	if s.split > 1 {
		work += m.skinnyPart
	}
	memory, power := m.limits(p)
	return m.skinnyStart + combine(work, memory, power)
}

// fewRows is the number of rows up to which a product always takes a skinny plan. The model was fitted to more.
const fewRows = 32

// choosePlan returns the plan with the shortest predicted time.
func choosePlan(p problem, d *device) plan {
	m := modelFor(d.name)
	skinny, isSkinny := planSkinny(p, d)
	if isSkinny && p.m <= fewRows {
		return skinny
	}
	multiprocessors := d.multiprocessors
	if p.multiprocessors > 0 {
		multiprocessors = min(multiprocessors, p.multiprocessors)
	}
	best := slices.MinFunc(tilePlans(p, m, multiprocessors), func(a, b tilePlan) int {
		return cmp.Compare(m.tiles(a, p, multiprocessors), m.tiles(b, p, multiprocessors))
	})
	if isSkinny && m.skinny(skinny, p, multiprocessors) < m.tiles(best, p, multiprocessors) {
		return skinny
	}
	return best
}

// tilePlans lists all plans of tiles for a product.
func tilePlans(p problem, m *costModel, multiprocessors int) (list []tilePlan) {
	const minSteps = 4 // of a part of k
	atOnce := func(cluster int) int { return m.blocksAtOnce(cluster, multiprocessors) }
	for _, k := range tileKernels {
		if k.operand != p.operand {
			continue
		}
		for _, share := range []sharing{shareNothing, shareA, shareB} {
			if share == shareB && p.m <= tileRows || share == shareA && p.n <= k.cols {
				continue
			}
			for parts := 1; m.atOnce[parts*share.pair()] > 0; parts++ {
				t := newTilePlan(k, share, parts, p, atOnce)
				if k.cols < tileRows && t.rows*t.wide*t.cluster() > atOnce(t.cluster()) {
					continue // narrow tiles fetch more, which pays only if all are computed at once
				}
				if parts > 1 && (k.kind != wideTiles || p.multiprocessors > 0 || t.blocks > atOnce(t.cluster()) ||
					p.k/stepK < minSteps*parts) {
					continue
				}
				list = append(list, t)
			}
		}
	}
	return list
}

// prepareBest prepares the best plan, or the usual one if the driver refuses that.
func (k *kernels) prepareBest(p problem, at []place) error {
	best := choosePlan(p, k.device)
	list, err := best.launches(k.device, p, at)
	if err != nil && !cuda.Sticky(err) && p.operand == usualTiles.operand {
		k.noPlan = err
		best = newTilePlan(usualTiles, shareNothing, 1, p, func(int) int { return k.device.multiprocessors })
		list, err = best.launches(k.device, p, at)
	}
	k.plan, k.launches = best, list
	return err
}
