package report

import "testing"

func TestVisual(t *testing.T) {
	in := Input{Bench: fixtureBench(), Run: fixtureRun(), Plots: []Plot{{X: "size", Y: "time_us", By: []string{"dtype"}}, {X: "dtype", Y: "busbw"}, {X: "num_ranks", Y: "time_us.p99", By: []string{"size"}}}}
	in.Run.Rows = append(in.Run.Rows, sweep(sizes, []string{"f32"}, []int{8}, []string{"Ring"}, 1)...)
	files, err := Render("/tmp/vis", in)
	t.Log(files, err)
}
