package gpugemm

import (
	"errors"

	"github.com/kernbench/kernbench/internal/host/cuda"
)

// graphProducts is the least number of products in a graph, if a sample has that many.
const graphProducts = 48

// graphSize returns how many products a full graph has: a whole number of turns through all places.
func (e *engine) graphSize() int { return roundUp(graphProducts, max(1, len(e.places))) }

// Sample runs products, each at the next place, and returns their time on the GPU. Several products are launched by
// graphs, as an LLM server launches them: the gap between two of them is then the GPU's own.
func (e *engine) Sample(products int) (us float64, err error) {
	if len(e.places) == 0 {
		return 0, nil
	}
	err = e.device.Do(func() error {
		work := func() error { return e.startEach(products) }
		if products > 1 && e.noGraphs == nil {
			graphs, err := e.record(products)
			if cuda.Sticky(err) {
				return err
			}
			if e.noGraphs = err; err == nil {
				work = func() error { return e.startGraphs(graphs) }
				e.next = 0
				e.last = (products - 1) % e.graphSize() % len(e.places)
			}
		}
		us, err = e.watch.time(work)
		return err
	})
	return us, err
}

// startEach starts products one by one.
func (e *engine) startEach(products int) error {
	for range products {
		e.last = e.next
		if err := e.by.start(e.last, e.watch.Stream); err != nil {
			return err
		}
		e.next = (e.next + 1) % len(e.places)
	}
	return nil
}

func (e *engine) startGraphs(graphs []*cuda.Graph) error {
	for _, g := range graphs {
		if err := g.Start(e.watch.Stream); err != nil {
			return err
		}
	}
	return nil
}

// record returns graphs that together have the given number of products: full graphs, and then one with the rest.
func (e *engine) record(products int) (list []*cuda.Graph, err error) {
	full := e.graphSize()
	for ; products > 0; products -= full {
		n := min(products, full)
		g := e.graphs[n]
		if g == nil {
			if g, err = e.recordGraph(n); err != nil {
				return nil, err
			}
		}
		list = append(list, g)
	}
	return list, nil
}

// maxGraphs limits how many graphs are kept. Samples of one row have few different sizes.
const maxGraphs = 16

func (e *engine) recordGraph(products int) (*cuda.Graph, error) {
	if len(e.graphs) >= maxGraphs {
		if err := e.forgetGraphs(); err != nil {
			return nil, err
		}
	}
	g, err := e.watch.Capture(func() error {
		for i := range products {
			if err := e.by.start(i%len(e.places), e.watch.Stream); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if e.graphs == nil {
		e.graphs = map[int]*cuda.Graph{}
	}
	e.graphs[products] = g
	return g, nil
}

// forgetGraphs releases the graphs, which have the addresses and the algorithm of a product.
func (e *engine) forgetGraphs() error {
	var faults []error
	for _, g := range e.graphs {
		faults = append(faults, g.Destroy())
	}
	e.graphs, e.noGraphs = nil, nil
	return errors.Join(faults...)
}
