package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/probe"
	"github.com/kernbench/kernbench/internal/view/speedup"
)

func TestWriteProbe(t *testing.T) {
	r := probe.Result{Copy: []probe.Cell{{Cores: 1, Bytes: 16 << 10, GBps: 123.456}, {Cores: 2, Bytes: 16 << 10, GBps: 200}},
		Read: []probe.Cell{{Cores: 1, Bytes: 16 << 10, GBps: 99}, {Cores: 2, Bytes: 16 << 10, GBps: 150}},
		Hops: []probe.Hop{{From: 0, To: 1, US: 0.0812}}, FutexWake: 5.5, Unix: 1.9, TCP: 4.3}
	var b bytes.Buffer
	if err := writeProbe(&b, "table", r); err != nil {
		t.Fatal(err)
	}
	want := `cores  set per core  copy GB/s  read GB/s
    1          16Ki        123         99
    2          16Ki        200        150

one way                      us
cache line, core 0 to 1  0.0812
futex wake                  5.5
unix socket                 1.9
TCP loopback                4.3
`
	if b.String() != want {
		t.Errorf("the table is\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	if err := writeProbe(&b, "json", r); err != nil {
		t.Fatal(err)
	}
	var back probe.Result
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back.TCP != 4.3 || len(back.Copy) != 2 {
		t.Errorf("json reads back as %+v, %v", back, err)
	}
	b.Reset()
	if err := writeProbe(&b, "table", probe.Result{Copy: r.Copy[:1], Read: r.Read[:1]}); err != nil || strings.Contains(b.String(), "one way") {
		t.Errorf("a single core: %v\n%s", err, b.String())
	}
}

func TestWriteSpeedup(t *testing.T) {
	nan := math.NaN()
	size := func(n int64) point.Point { return point.Point{{Name: "size", Value: point.BytesValue(n)}} }
	table := speedup.Table{Ranks: 2, Lines: []speedup.Line{
		{Point: size(1 << 20), Ours: 70, Theirs: 281, Peer: "openmpi", Ratio: speedup.Ratio{Median: 4.01, Low: 3.9, High: 4.2, Pairs: 10}, OfLimit: 81.4, Verdict: speedup.Met},
		{Point: size(4), Ours: 0.25, Theirs: 0.5, Peer: "mpich", Ratio: speedup.Ratio{Median: 2, Low: nan, High: nan, Pairs: 2}, Verdict: speedup.NotResolved},
	}, Geomean: speedup.Ratio{Median: 2.83, Low: 2.7, High: 2.9, Pairs: 10}, Slower: speedup.NotResolved, Faster: speedup.NotMet}
	var b bytes.Buffer
	if err := writeSpeedup(&b, "symmetric", table, speedup.Goals{Least: 1, Mean: 3.5}, 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"symmetric, 2 ranks:", "1Mi       70      281          4.01     3.9 to 4.2     10          81  met           openmpi",
		"too few pairs      2              not resolved  mpich", "not slower at any point: not resolved",
		"geometric mean 2.83 times faster (2.7 to 2.9), goal 3.5: not met (10 pairs)",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing from\n%s", want, b.String())
		}
	}
}
