package workload

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/loggp"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/workload/chakra"
	"github.com/kernbench/kernbench/internal/workload/replay"
)

// body replays a point. On a flat network there is only rank 0, which stands for all ranks. On an accelerator the ranks
// are goroutines of one process: rank 0 replays for all.
func body(ctx context.Context, s *bench.State) error {
	us, err := machine.OnRank0(ctx, s, func() (float64, error) {
		err := lead(s)
		return s.Metric(timeMetric), err
	})
	if s.Rank() > 0 {
		s.Kind(bench.Simulated)
	}
	if err == nil && s.Rank() > 0 {
		s.Record(timeMetric, us)
	}
	return err
}

// lead replays the point and records the result.
func lead(s *bench.State) error {
	s.Phase("reading")
	o, err := settings(s.Point(), s.Point())
	if err != nil {
		return err
	}
	traces, err := load(s.Point(), s.Point())
	if err != nil {
		return err
	}
	w, err := replay.New(traces, o)
	if err != nil {
		return err
	}
	chosen, err := machine.Describe(s)
	if err != nil {
		return err
	}
	s.Detail("machine", chosen.Text)
	s.Phase("replaying")
	s.Kind(bench.Simulated)
	var r *replay.Result
	on, isAccelerator := dist.As[accelerator](s.Backend())
	switch {
	case s.Str(algorithmAxis) == replay.Recorded:
		if chosen.File != "" {
			s.Warn("algorithm=%s simulates no network: the network file has no effect", replay.Recorded)
		}
		r, err = asRecorded(s, w)
	case isAccelerator:
		r, err = onAccelerator(s, w, chosen, on)
	default:
		var n loggp.Network
		if n, err = networkOf(s, chosen); err == nil {
			r, err = onNetwork(s, w, n)
		}
	}
	if err != nil {
		return err
	}
	record(s, w, r)
	return writeFiles(s, r)
}

// networkOf returns the network of a point: the network file's, else the cluster's, else the built-in one.
func networkOf(s *bench.State, chosen machine.Chosen) (loggp.Network, error) {
	c, err := clusterOf(s.Point(), s.Point())
	switch {
	case err != nil:
		return loggp.Network{}, err
	case c == nil || chosen.File != "":
		return loggp.Open(chosen.File, chosen.Arrangement)
	}
	noteCluster(s, c)
	return clusterNetwork(c, s.Point(), s.Point())
}

// asRecorded replays a workload with the recorded times of communication.
func asRecorded(s *bench.State, w *replay.Workload) (*replay.Result, error) {
	m, err := w.OnRecord()
	if err != nil {
		return nil, err
	}
	s.Detail("algorithms", "communication takes the durations of the traces")
	return w.Run(m)
}

// pointName adds the coordinates of the point to the stem of a file name.
func pointName(s *bench.State, stem string) string {
	for _, c := range s.Point() {
		switch c.Name {
		case algorithmAxis:
		case streamsAxis, commStreamsAxis, flopsAxis:
			if v := c.Value.String(); v == "0" || v == "1" {
				continue // the default
			}
		case traceOption, clusterOption, machine.Option, machine.Arrangement:
			if !machine.Swept(c.Value) && c.Name != traceOption && c.Name != clusterOption {
				continue
			}
		default:
			if !machine.IsFault(c.Name) && !isGenerated(c) {
				continue
			}
		}
		if text := c.Value.String(); text != "" {
			stem += "-" + strings.Map(plain, filepath.Base(text))
		}
	}
	return stem
}

// plain replaces runes that are awkward in file names.
func plain(r rune) rune {
	if strings.ContainsRune(`:/\ *?"'<>|`, r) {
		return '_'
	}
	return r
}

// writeFiles writes the timeline and the traces of a point, if they were asked for.
func writeFiles(s *bench.State, r *replay.Result) error {
	if file := s.Str(perfettoOption); file != "" {
		ext := filepath.Ext(file)
		name := pointName(s, strings.TrimSuffix(file, ext)) + ext
		out, err := os.Create(name)
		if err != nil {
			return fmt.Errorf("--%s: %w", perfettoOption, err)
		}
		if err := writeTimeline(out, r); err != nil {
			return fmt.Errorf("--%s %s: %w", perfettoOption, name, err)
		}
	}
	if prefix := s.Str(writeOption); prefix != "" {
		if err := chakra.Write(pointName(s, prefix), r.Traces()); err != nil {
			return fmt.Errorf("--%s: %w", writeOption, err)
		}
	}
	return nil
}
