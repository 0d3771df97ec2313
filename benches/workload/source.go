package workload

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"weak"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/fastjson"
	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/workload/chakra"
	"github.com/kernbench/kernbench/internal/workload/replay"
)

// prefixOf returns the prefix of the traces, or "" for the built-in example.
func prefixOf(p, options bench.Point) string { return point.ValueOf(p, options, traceOption).String() }

// settings returns the options of the replay.
func settings(p, options bench.Point) (replay.Options, error) {
	o := replay.Options{Streams: int(p.At(streamsAxis).Int()), CommStreams: int(p.At(commStreamsAxis).Int()),
		Flops: p.At(flopsAxis).Float(), MemoryBandwidth: options.At(memoryOption).Float()}
	if err := takeRates(&o, p, options); err != nil {
		return o, err
	}
	file := bench.FilePath(p, options, groupsOption)
	if file == "" {
		return o, nil
	}
	var err error
	if o.Groups, err = readGroups(file); err != nil {
		return o, fmt.Errorf(`--%s %s: want {"NAME": [RANK, ...]}: %w`, groupsOption, file, err)
	}
	return o, nil
}

// readGroups reads the members of process groups: lists of ranks, or as in newer files of ASTRA-sim objects with a list
// "ranks".
func readGroups(file string) (map[string][]int, error) {
	data, err := infile.Read(file, infile.Table)
	if err != nil {
		return nil, err
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(data, &entries); err != nil {
		return nil, err
	}
	if name := fastjson.Duplicate(data); name != "" {
		return nil, fmt.Errorf("duplicate name %q", name)
	}
	groups := map[string][]int{}
	for name, entry := range entries {
		var object struct{ Ranks []int }
		err := json.Unmarshal(entry, &object)
		if err != nil {
			err = json.Unmarshal(entry, &object.Ranks)
		}
		if err == nil && len(object.Ranks) == 0 {
			err = errors.New("it lists no ranks")
		}
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", name, err)
		}
		groups[name] = object.Ranks
	}
	return groups, nil
}

// lastRead holds the traces that were read last, unless their memory was needed for something else. Planning reads
// the same traces for every point.
var lastRead struct {
	sync.Mutex
	prefix string
	traces weak.Pointer[[]*chakra.Trace]
}

// load returns the traces of a point: of a prefix, of a model, or the built-in example.
func load(p, options bench.Point) ([]*chakra.Trace, error) {
	prefix := prefixOf(p, options)
	if step, generated, err := stepOf(p, options); generated || err != nil {
		if err != nil {
			return nil, err
		}
		return step.Traces()
	}
	if prefix == "" {
		return example(), nil
	}
	lastRead.Lock()
	defer lastRead.Unlock()
	if known := lastRead.traces.Value(); known != nil && lastRead.prefix == prefix {
		return *known, nil
	}
	traces, err := chakra.Read(prefix)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", traceOption, err)
	}
	lastRead.prefix, lastRead.traces = prefix, weak.Make(&traces)
	return traces, nil
}

// traceDigest identifies the contents of the traces with a prefix.
func traceDigest(prefix string) (string, error) {
	if prefix == "" {
		return "", nil
	}
	files, err := chakra.Files(prefix)
	sum := sha256.New()
	for _, file := range files {
		f, err := infile.Open(file, infile.Trace)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(sum, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		fmt.Fprintln(sum, file)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), err
}

// example returns a step of data-parallel training on 8 ranks: four layers forward and backward, whose gradients are
// all-reduced while the earlier layers compute, and an update at the end.
func example() []*chakra.Trace {
	const ranks, layers = 8, 4
	traces := make([]*chakra.Trace, ranks)
	for rank := range traces {
		t := &chakra.Trace{Rank: rank}
		id := uint64(0)
		last := []uint64(nil)
		compute := func(name string, d event.Time, deps []uint64) []uint64 {
			id++
			t.Nodes = append(t.Nodes, chakra.Node{ID: id, Name: name, Type: chakra.Comp, Duration: d, DataDeps: deps})
			return []uint64{id}
		}
		for l := range layers {
			last = compute(fmt.Sprintf("forward %d", l), 100*event.Microsecond, last)
		}
		var gradients []uint64
		for l := layers - 1; l >= 0; l-- {
			last = compute(fmt.Sprintf("backward %d", l), 200*event.Microsecond, last)
			id++
			t.Nodes = append(t.Nodes, chakra.Node{ID: id, Name: fmt.Sprintf("gradients %d", l), Type: chakra.Coll,
				Collective: chakra.AllReduce, Bytes: 16 << 20, Group: "dp", DataDeps: last})
			gradients = append(gradients, id)
		}
		compute("update", 50*event.Microsecond, gradients)
		traces[rank] = t
	}
	return traces
}
