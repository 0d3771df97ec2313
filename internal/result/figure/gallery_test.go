package figure

import (
	"fmt"
	"math"
)

// gallery has one figure of every kind. They are the golden files; look at them after a
// change of the appearance.
func gallery() []Figure {
	return []Figure{
		latencyFigure(), groupedFigure(), stackedFigure(), heatFigure(), scalingFigure(),
		brokenFigure(), topologyFigure(), crowdedFigure(), oddFigure(), doubtFigure(), longNamesFigure(),
		tornadoFigure(), timelineFigure(), scatterFigure(),
	}
}

func ref(v float64) *float64 { return &v }

// alphaBeta returns a latency curve, a + size/b, with a small deterministic ripple.
func alphaBeta(a, b, ripple float64) []Point {
	var pts []Point
	for e := 3; e <= 28; e++ {
		size := math.Exp2(float64(e))
		y := a + size/b
		y *= 1 + ripple*math.Sin(float64(e)*1.7)
		pts = append(pts, Point{X: size, Y: y, Low: y * 0.86, High: y * 1.25})
	}
	return pts
}

func bare(pts []Point) []Point {
	out := make([]Point, len(pts))
	for i, p := range pts {
		out[i] = Point{X: p.X, Y: p.Y}
	}
	return out
}

func latencyFigure() Figure {
	return Figure{
		Name:  "latency",
		Title: "All-reduce latency over message size, 8 ranks",
		Caption: "Median over iterations of the maximum over ranks; bars are 95 % intervals. Dashed: fit of start-up time " +
			"and bandwidth.",
		Panels: []Panel{{
			X: Axis{Label: "Message size (bytes)", Scale: Log2, Unit: Bytes},
			Y: Axis{Label: "Latency", Scale: Log10, Unit: Micros},
			Series: []Series{
				{Name: "ring", Points: alphaBeta(14, 5200, 0.08)},
				{Name: "ring, fit", Points: bare(alphaBeta(14, 5200, 0)), Color: 1, Dashed: true, NoMarker: true},
				{Name: "recursive doubling", Points: alphaBeta(5, 2100, 0.08), Color: 2},
				{Name: "tree", Points: alphaBeta(8, 1200, 0.05), Color: 3},
			},
			Lines: []Line{
				{Label: "launch overhead 3.2 µs", Y: ref(3.2)},
				{Label: "L2 capacity", X: ref(1 << 25)},
				{Label: "link limit 9.6 GB/s",
					Points: []Point{{X: 1 << 15, Y: 1 << 15 / 9600.0}, {X: 1 << 28, Y: 1 << 28 / 9600.0}}},
			},
		}},
	}
}

func groupedFigure() Figure {
	bars := func(k float64) []Point {
		var pts []Point
		for i := range 5 {
			y := k * (40 + 35*float64(i)/(1+0.2*float64(i)))
			pts = append(pts, Point{X: float64(i), Y: y, Low: y * 0.95, High: y * 1.04})
		}
		return pts
	}
	return Figure{
		Name:  "grouped",
		Title: "Bus bandwidth by algorithm and rank count",
		Panels: []Panel{{
			X: Axis{Label: "Ranks", Scale: Category, Categories: []string{"2", "4", "8", "16", "32"}},
			Y: Axis{Label: "Bus bandwidth", Unit: GBps},
			Series: []Series{
				{Name: "ring", Kind: Bars, Points: bars(1)},
				{Name: "tree", Kind: Bars, Points: bars(0.8)},
				{Name: "recursive halving", Kind: Bars, Points: bars(1.15)},
				{Name: "direct", Kind: Bars, Points: bars(0.6)},
			},
			Lines: []Line{{Label: "link peak 200 GB/s", Y: ref(200)}},
		}},
	}
}

func stackedFigure() Figure {
	stage := func(name string, values ...float64) Series {
		s := Series{Name: name, Kind: StackedBars}
		for i, v := range values {
			s.Points = append(s.Points, Point{X: float64(i), Y: v})
		}
		return s
	}
	return Figure{
		Name:  "stages",
		Title: "Where the time goes in one all-reduce",
		Panels: []Panel{{
			X: Axis{Label: "Message size", Scale: Category,
				Categories: []string{"1 KiB", "16 KiB", "256 KiB", "4 MiB", "64 MiB"}},
			Y: Axis{Label: "Share of the time", Unit: Percent, Max: ref(100)},
			Series: []Series{
				stage("launch", 46, 38, 20, 6, 1), stage("barrier", 30, 27, 18, 7, 2), stage("copy in", 6, 10, 14, 19, 21),
				stage("reduce", 8, 12, 24, 38, 42), stage("copy out", 5, 8, 18, 26, 31), stage("other", 5, 5, 6, 4, 3),
			},
			Note: "Simulated; stages of the slowest rank.",
		}},
	}
}

func heatFigure() Figure {
	p := Panel{
		X:       Axis{Label: "Tile N", Scale: Category},
		Y:       Axis{Label: "Tile M", Scale: Category},
		Content: &HeatMap{Value: Axis{Label: "Throughput", Unit: TFlops}},
	}
	for _, n := range []int{16, 32, 64, 128, 256, 512} {
		p.X.Categories = append(p.X.Categories, fmt.Sprint(n))
		p.Y.Categories = append(p.Y.Categories, fmt.Sprint(n))
	}
	for i := range 6 {
		var row []Cell
		for k := range 6 {
			v := 30 + 95*float64(i+1)*float64(k+1)/(3+float64(i*k))
			if i == 5 && k == 5 {
				v = math.NaN()
			}
			row = append(row, Cell{Value: v})
		}
		p.Content.(*HeatMap).Cells = append(p.Content.(*HeatMap).Cells, row)
	}
	p.Content.(*HeatMap).Cells[5][5].Text = "OOM"
	return Figure{Name: "heat", Title: "GEMM throughput by tile shape, M = N = K = 8192", Panels: []Panel{p}}
}

func scalingFigure() Figure {
	ranks := []float64{1, 2, 4, 8, 16, 32, 64}
	curve := func(f func(float64) float64) []Point {
		var pts []Point
		for _, n := range ranks {
			pts = append(pts, Point{X: n, Y: f(n), Low: f(n) * 0.95, High: f(n) * 1.05})
		}
		return pts
	}
	x := Axis{Label: "Ranks", Scale: Log2}
	series := func(a, b func(float64) float64) []Series {
		return []Series{{Name: "CG", Points: curve(a)}, {Name: "pipelined CG", Points: curve(b)}}
	}
	return Figure{
		Name:  "scaling",
		Title: "Scaling of the sparse solve, 7-point Poisson",
		Caption: "Weak: 128 x 128 x 128 cells per rank. Strong: 256 x 256 x 256 cells in total. Throughput: " +
			"independent solves.",
		Panels: []Panel{
			{Title: "(a) Weak scaling", X: x, Y: Axis{Label: "Efficiency", Unit: Percent, Min: ref(0), Max: ref(110)},
				Series: series(func(n float64) float64 {
					return 100 / (1 + 0.08*math.Log2(n))
				}, func(n float64) float64 { return 100 / (1 + 0.04*math.Log2(n)) }),
				Lines: []Line{{Label: "ideal", Y: ref(100)}}},
			{Title: "(b) Strong scaling", X: x, Y: Axis{Label: "Speed-up", Scale: Log2},
				Series: series(func(n float64) float64 {
					return n / (1 + 0.02*n)
				}, func(n float64) float64 { return n / (1 + 0.008*n) }),
				Lines: []Line{{Label: "linear speed-up", Points: []Point{{X: 1, Y: 1}, {X: 64, Y: 64}}}}},
			{Title: "(c) Throughput", X: x, Y: Axis{Label: "Solves per second"},
				Series: series(func(n float64) float64 {
					return 310 * n / (1 + 0.01*n)
				}, func(n float64) float64 { return 290 * n })},
		},
	}
}

func brokenFigure() Figure {
	return Figure{
		Name:  "broken",
		Title: "Latency of a 1 KiB all-reduce by implementation",
		Panels: []Panel{{
			X: Axis{Scale: Category, Categories: []string{"kernbench shm", "Open MPI", "MPICH", "TCP loopback", "Gloo"}},
			Y: Axis{Label: "Latency", Unit: Micros, Break: &[2]float64{12, 180}},
			Series: []Series{{Kind: Bars, Points: []Point{
				{X: 0, Y: 2.1, Low: 1.9, High: 2.4}, {X: 1, Y: 6.3, Low: 5.9, High: 7}, {X: 2, Y: 7.9, Low: 7.5, High: 8.6},
				{X: 3, Y: 204, Low: 198, High: 213}, {X: 4, Y: 231, Low: 222, High: 236},
			}}},
		}},
	}
}

// topologyFigure draws a ring of eight, and a 4 x 4 torus.
func topologyFigure() Figure {
	var ring, torus Diagram
	spot := func(i int) [2]float64 {
		sin, cos := math.Sincos(math.Pi/2 - float64(i)*math.Pi/4)
		return [2]float64{3 * cos, 3 * sin}
	}
	for i := range 8 {
		ring.Links = append(ring.Links, Link{From: spot(i), To: spot((i + 1) % 8), Trim: 0.65, Bend: 0.12, Color: 1})
		ring.Nodes = append(ring.Nodes, Node{X: spot(i)[0], Y: spot(i)[1], Color: 1, Filled: i == 0,
			Text: fmt.Sprintf("rank %d", i)})
	}
	for i := range 16 {
		x, y := 2*float64(i%4), 2*float64(i/4)
		torus.Nodes = append(torus.Nodes, Node{X: x, Y: y, Color: 3, Text: fmt.Sprintf("PE %d", i)})
		if x < 6 {
			torus.Links = append(torus.Links, Link{From: [2]float64{x, y}, To: [2]float64{x + 2, y}, Trim: 0.6, Both: true})
		} else {
			torus.Links = append(torus.Links, Link{From: [2]float64{x, y}, To: [2]float64{0, y}, Trim: 0.7, Bend: 0.2, Color: 2})
		}
	}
	return Figure{Name: "topology", Title: "Network topologies", Panels: []Panel{
		{Title: "(a) Ring", Content: &ring}, {Title: "(b) 4 x 4 torus without the links of its columns", Content: &torus},
	}}
}

func crowdedFigure() Figure {
	f := Figure{Name: "crowded", Title: "Eleven algorithms", Panels: []Panel{{
		X: Axis{Label: "Message size (bytes)", Scale: Log2, Unit: Bytes},
		Y: Axis{Label: "Bus bandwidth", Unit: GBps},
	}}}
	for i := range 11 {
		s := Series{Name: fmt.Sprintf("algorithm %d", i+1)}
		for e := 10; e <= 30; e += 2 {
			size := math.Exp2(float64(e))
			s.Points = append(s.Points, Point{X: size, Y: (400 - 22*float64(i)) / (1 + 3e6*(1+0.3*float64(i))/size)})
		}
		f.Panels[0].Series = append(f.Panels[0].Series, s)
	}
	return f
}

// oddFigure has NaN, infinities, empty series and other unusual data.
func oddFigure() Figure {
	x := Axis{Label: "Size", Scale: Log2, Unit: Bytes}
	y := Axis{Label: "Time", Scale: Log10, Unit: Micros}
	return Figure{Name: "odd", Title: "Odd data", Columns: 2, Panels: []Panel{
		{Title: "No points at all", X: x, Y: y},
		{Title: "A single point", X: x, Y: y,
			Series: []Series{{Name: "lonely", Points: []Point{{X: 4096, Y: 12, Low: 10, High: 15}}}}},
		{Title: "Not finite, not positive, outside", X: x, Y: Axis{Label: "Time", Scale: Log10, Unit: Micros, Max: ref(500)},
			Series: []Series{
				{Name: "broken", Points: []Point{{X: 8, Y: math.NaN()}, {X: 0, Y: 3}, {X: 64, Y: -1}, {X: 128, Y: math.Inf(1)},
					{X: 256, Y: 4, Low: -2, High: 9}, {X: 1024, Y: 40}, {X: 4096, Y: 900}}},
			}},
		{Title: "Residual, down to rounding", X: Axis{Label: "Iteration"}, Y: Axis{Label: "Relative residual", Scale: Log10},
			Series: []Series{
				{Name: "CG", NoMarker: true, Points: []Point{{X: 0, Y: 1}, {X: 40, Y: 2e-3}, {X: 90, Y: 4e-7}, {X: 150, Y: 3e-13}}},
			}},
	}}
}

func doubtFigure() Figure {
	nan := math.NaN()
	return Figure{Name: "doubt", Title: "Disturbed and failed points", Columns: 2, Panels: []Panel{
		{X: Axis{Label: "Size", Scale: Log2, Unit: Bytes}, Y: Axis{Label: "Time", Scale: Log10, Unit: Micros},
			Series: []Series{
				{Name: "ring", Points: []Point{{X: 64, Y: 4}, {X: 256, Y: 5}, {X: 1024, Y: nan, Failed: true}, {X: 4096, Y: 40},
					{X: 16384, Y: 90, Low: 60, High: 200, Hollow: true}}},
				{Name: "tree", Points: []Point{{X: 64, Y: 2}, {X: 256, Y: 9, Hollow: true}, {X: 1024, Y: nan, Failed: true},
					{X: 4096, Y: 30}, {X: 16384, Y: nan, Failed: true}}},
			}, Note: "hollow: disturbed while measured; ×: the point failed"},
		{X: Axis{Label: "Algorithm", Scale: Category, Categories: []string{"ring", "tree", "auto"}},
			Y: Axis{Label: "Bus bandwidth", Unit: GBps}, Legend: LegendNone, Series: []Series{
				{Name: "f32", Kind: Bars, Points: []Point{{X: 0, Y: 10}, {X: 1, Y: 8, Hollow: true}, {X: 2, Y: nan, Failed: true}}},
			}},
	}}
}

func tornadoFigure() Figure {
	return Figure{Name: "tornado", Title: "How the time of an all-reduce depends on the machine",
		Panels: []Panel{{X: Axis{Label: "Change of the time"},
			Content: &Tornado{Lowered: "20 % less", Raised: "20 % more", Bars: []TornadoBar{
				{Name: "system.link.latency_ns", Value: "43.201", Lower: ref(-7.25), Higher: ref(7.25)},
				{Name: "cube.ucie.bw_gbs", Value: "128", Lower: ref(4), Higher: ref(-2.5)},
				{Name: "cube.hbm.efficiency", Value: "1", Lower: ref(0.5)},
				{Name: "pe.gemm.tile", Lower: ref(0), Higher: ref(0.25)}}}}}}
}

// scatterFigure has clouds of points and more lines without markers than there are lightnesses.
func scatterFigure() Figure {
	cloud := func(x, y float64) (pts []Point) {
		for i := range 24 {
			sin, cos := math.Sincos(float64(i) * 2.4)
			r := math.Sqrt(float64(i))
			pts = append(pts, Point{X: x + 4*r*cos, Y: y + 2*r*sin})
		}
		return pts
	}
	residuals := Panel{Title: "Residuals of seven methods", X: Axis{Label: "Iteration"},
		Y: Axis{Label: "Relative residual", Scale: Log10}}
	for i := range 7 {
		s := Series{Name: fmt.Sprintf("method %d", i+1), NoMarker: true}
		for k := range 41 {
			s.Points = append(s.Points, Point{X: float64(k), Y: math.Exp(-float64(k) * (0.2 + 0.09*float64(i)))})
		}
		residuals.Series = append(residuals.Series, s)
	}
	return Figure{Name: "scatter", Title: "Clouds of points, and lines without markers", Panels: []Panel{
		{Title: "Settings tried by a search", X: Axis{Label: "Launches"}, Y: Axis{Label: "Gain", Unit: Percent},
			Series: []Series{{Name: "first race", Kind: Scatter, Points: cloud(30, 20)},
				{Name: "second race", Kind: Scatter, Points: cloud(60, 30)}}},
		residuals,
	}}
}

// timelineFigure has ranks, a chain of steps that lead from one row to the next, and shares of one kind.
func timelineFigure() Figure {
	x := Axis{Label: "Time", Unit: Micros}
	step := &Timeline{Kinds: []string{"compute", "all-reduce", "copy", "waiting"}, End: 60}
	chain := &Timeline{Kinds: []string{"compute", "queueing"}, End: 60, Joined: true}
	share := &Timeline{Kinds: []string{"sending"}, End: 60}
	for r := range 4 {
		row := TimelineRow{Name: fmt.Sprintf("rank %d", r)}
		at := 0.0
		for i, length := range []float64{12 + float64(r), 3, 9 - float64(r), 14, 4, 16} {
			row.Spans = append(row.Spans, TimelineSpan{Kind: i % 4, From: at, To: at + length, Top: 1})
			at += length
		}
		step.Rows = append(step.Rows, row)
		from := 15 * float64(r)
		chain.Rows = append(chain.Rows, TimelineRow{Name: fmt.Sprintf("sip0.cube%d.pe1", r), Note: "15 µs (25.0 %)",
			Spans: []TimelineSpan{{From: from, To: from + 11, Top: 1}, {Kind: 1, From: from + 11, To: from + 15, Top: 1}}})
		load := TimelineRow{Name: fmt.Sprintf("link %d", r), Note: "40.0 %"}
		for k := range 20 {
			load.Spans = append(load.Spans, TimelineSpan{From: 3 * float64(k), To: 3 * float64(k+1),
				Top: 0.2 + 0.08*float64((k+r)%10)})
		}
		share.Rows = append(share.Rows, load)
	}
	return Figure{Name: "timeline", Title: "One training step on four ranks", Columns: 1,
		Panels: []Panel{{X: x, Content: step}, {Title: "The critical path", X: x, Content: chain},
			{Title: "Links", X: x, Content: share}}}
}

func longNamesFigure() Figure {
	names := []string{
		"ring all-reduce over shared memory", "recursive_halving_doubling_with_pipelining",
		"two-level tree (node, then network)",
		"direct", "multi-rail hierarchical ring of rings", "parameter server", "butterfly", "bidirectional ring",
		"in-network reduction", "one-shot peer-to-peer",
	}
	s := Series{Name: "a series with a name that is much longer than any legend should ever have to hold, by far",
		Kind: Bars}
	for i := range names {
		s.Points = append(s.Points, Point{X: float64(i), Y: 100 - 7*float64(i)})
	}
	few := s
	few.Points = s.Points[:4]
	return Figure{
		Name: "long-names",
		Title: "A title that goes on and on about the machine, the message sizes, the number of ranks, the day of the " +
			"week and the compiler flags, until it no longer fits on a single line",
		Panels: []Panel{
			{Title: "Many long names", X: Axis{Label: "Algorithm", Scale: Category, Categories: names},
				Y: Axis{Label: "Bus bandwidth", Unit: GBps}, Series: []Series{s}},
			{Title: "A few long names", X: Axis{Label: "Algorithm", Scale: Category, Categories: names[:4]},
				Y: Axis{Label: "Bus bandwidth", Unit: GBps}, Series: []Series{few}},
		},
	}
}
