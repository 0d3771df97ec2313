// Command accelkernel shows how to write a collective for the simulated accelerator: a
// reduce-scatter around a ring of SIPs, as a bench with axes, verification and --topology.
//
//	go run ./examples/accelkernel run --bench reduce-scatter --sips 2,4,8 --n_elem 64,1024
package main

import (
	"context"
	"os"

	"github.com/kernbench/kernbench"
	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/bench"
)

func main() {
	os.Exit(kernbench.Main(bench.New("reduce-scatter", run, bench.Help("reduce-scatter round a ring of simulated SIPs"),
		bench.Backends("ahbm"), bench.Metric("wire_ns", "ns", "lower"), bench.Metric("overhead_ns", "ns", "lower"),
		bench.Sweepable(bench.FileOption("topology", accel.TopologyFile(),
			"topology file, or several to compare (default: topology.yaml here, else built in)")),
		bench.Ints("sips", "2,4,8"), bench.Ints("n_elem", "64:1024:x4"))))
}

// reduceScatter leaves chunk r of the sum of all inputs in SIP r. A partial sum of each chunk
// travels once around the ring, to the east, and ends in the SIP that owns the chunk.
func reduceScatter(in, out []*accel.Tensor, chunk int) tl.Kernel {
	return func(p *tl.PE) {
		sips, me := p.Topology().SIPs.Count, p.SIP()
		from, _ := in[me].On(p.ID())
		load := func(i int) tl.Tile { return p.Load(from.Ptr.Plus((i+sips)%sips*chunk), chunk) }
		sum := load(me - 1)
		for step := range sips - 1 {
			p.Send(tl.GlobalE, sum)
			own := load(me - 2 - step)
			sum = p.Add(own, p.Recv(tl.GlobalW, chunk))
		}
		to, _ := out[me].On(p.ID())
		p.Store(to.Ptr, sum)
	}
}

func run(ctx context.Context, s *bench.State) error {
	file, _, err := s.File("topology") // fails if the file has changed since planning
	if err != nil {
		return err
	}
	machine, config, err := accel.Load(file, "")
	if err != nil {
		return err
	}
	sips, chunk := s.Int("sips"), s.Int("n_elem")
	if machine, err = machine.WithSIPs("ring_1d", sips, 1); err != nil {
		return err
	}
	system := accel.New(machine, config)
	var in, out []*accel.Tensor
	var on []accel.PEID
	for sip := range sips {
		x, err := system.Zeros(sip, 1, sips*chunk, accel.OnCube(0))
		if err != nil {
			return err
		}
		if err := x.Set(values(sip, sips*chunk)); err != nil {
			return err
		}
		y, err := system.Zeros(sip, 1, chunk, accel.OnCube(0))
		if err != nil {
			return err
		}
		in, out, on = append(in, x), append(out, y), append(on, accel.PEID{SIP: sip})
	}
	s.UseClock(system.Clock())
	s.Verify(func() error { return check(out, sips, chunk) })
	var result *accel.Result
	err = s.Time(ctx, func() (err error) {
		result, err = system.Launch(reduceScatter(in, out, chunk), on)
		return err
	})
	if err == nil {
		s.Record("wire_ns", result.Breakdown.Wire.Nanoseconds())
		s.Record("overhead_ns", result.Breakdown.Overhead.Nanoseconds())
	}
	return err
}

// value returns numbers that are small enough for all sums to be exact in f16.
func value(sip, i int) float32 { return float32((sip*7 + i*3) % 5) }

func values(sip, n int) []accel.Float16 {
	v := make([]accel.Float16, n)
	for i := range v {
		v[i] = accel.Float16From(value(sip, i))
	}
	return v
}

func check(out []*accel.Tensor, sips, chunk int) error {
	wrong := &bench.Wrong{Detail: "a chunk is not the sum of all SIPs'"}
	for r, y := range out {
		for i, got := range y.Data() {
			var want float32
			for sip := range sips {
				want += value(sip, r*chunk+i)
			}
			if got.Float32() != want {
				wrong.Count++
			}
		}
	}
	if wrong.Count > 0 {
		return wrong
	}
	return nil
}
