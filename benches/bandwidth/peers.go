package bandwidth

import (
	"context"
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// pairMetric names the metric of the copies from one GPU to another.
func pairMetric(from, to int) string { return fmt.Sprintf("p2p_%d_%d", from, to) }

// member is a GPU with the array that it sends and the array that it receives into.
type member struct {
	*gpu
	source, target cuda.Pointer
	contents       []byte // of source
}

// betweenGPUs times copies between all GPUs of this process, one ordered pair at a time. The row's time belongs to
// the first pair. The metrics p2p_FROM_TO have the GB/s of every pair.
func betweenGPUs(ctx context.Context, s *bench.State) error {
	list, err := visible()
	if err != nil {
		return bench.NotExecuted(false, "%v", err)
	}
	if len(list) < 2 {
		return bench.NotExecuted(false, "%s copies between GPUs, and there is one GPU (%s)", peerToPeer, list[0].Name)
	}
	s.Detail(journal.DeviceDetail, list[0].Name)
	members, err := openAll(list, s.Value("size").Int(), s.Seed())
	defer func() {
		for _, m := range members {
			m.close()
		}
	}()
	if err != nil {
		return err
	}
	if err := describePaths(s, list); err != nil {
		return err
	}
	for from, source := range members {
		for to, target := range members {
			if from == to {
				continue
			}
			if err := timePair(ctx, s, source, target, pairMetric(from, to)); err != nil {
				return fmt.Errorf("from GPU %d to GPU %d: %w", from, to, err)
			}
		}
	}
	return nil
}

// openAll prepares every GPU, and lets each of them access the memory of the others where the machine allows it.
func openAll(list []*cuda.Device, size int64, seed uint64) (members []*member, err error) {
	for i, device := range list {
		context, err := device.Context()
		if err != nil {
			return members, err
		}
		m := &member{gpu: &gpu{Context: context, size: size}, contents: block(size, seed+uint64(i))}
		members = append(members, m)
		if err := m.Do(func() error { return m.prepare() }); err != nil {
			return members, err
		}
	}
	for _, m := range members {
		for _, peer := range members {
			if reaches, err := m.Device().Reaches(peer.Device()); m == peer || err != nil || !reaches {
				continue // the driver copies through the host
			}
			if err := m.Do(func() error { return m.EnablePeer(peer.Context) }); err != nil {
				return members, err
			}
		}
	}
	return members, nil
}

func (m *member) prepare() (err error) {
	if err := m.open(); err != nil {
		return err
	}
	if m.source, err = m.array(m.contents); err != nil {
		return err
	}
	m.target, err = m.array(nil)
	return err
}

// describePaths records whether the GPUs reach each other's memory, or copies go through the host.
func describePaths(s *bench.State, list []*cuda.Device) error {
	direct, pairs := 0, len(list)*(len(list)-1)
	for _, from := range list {
		for _, to := range list {
			reaches, err := from.Reaches(to)
			if err != nil {
				return err
			}
			if reaches && from != to {
				direct++
			}
		}
	}
	s.Detail("peer_access", fmt.Sprintf("%d of %d pairs; the driver copies between the others through the host", direct,
		pairs))
	return nil
}

// timePair times the copies of one pair and checks every byte of the result.
func timePair(ctx context.Context, s *bench.State, from, to *member, metric string) error {
	w := from.timed(func() error { return from.streams[0].Copy(to.target, from.source, int(from.size)) }, nil, from.size)
	check := func() error {
		return to.Do(func() error { return to.checkArray(to.target, from.contents) })
	}
	time := "time_us"
	if s.Metric(time) == 0 { // the first pair
		s.Verify(check)
		s.Bytes(from.size)
		if err := s.Time(ctx, w.call, collectives.SampleOnDevice(s, eventOverhead, w.sample)); err != nil {
			return err
		}
	} else {
		if err := errors.Join(w.call(), check()); err != nil { // also a warm-up
			return err
		}
		calls := max(1, int(shortCopy/from.size))
		sample := func() (float64, error) {
			us, err := w.sample(calls)
			return us / float64(calls), err
		}
		if err := s.TimeAs(ctx, metric+"_us", sample, bench.AfterSamples(check)); err != nil {
			return err
		}
		time = metric + "_us"
	}
	s.Report(metric, float64(from.size)/s.Metric(time)/1e3, "GB/s", "higher")
	return nil
}

// shortCopy is the number of bytes of a sample of short copies, so that the time between an event and a copy does not
// matter.
const shortCopy = 16 << 20
