package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/probe"
)

func TestWriteProbe(t *testing.T) {
	r := probe.Result{Copy: []probe.Cell{{Cores: 1, Bytes: 16 << 10, GBps: 123.456},
		{Cores: 2, Bytes: 16 << 10, GBps: 200}},
		Read: []probe.Cell{{Cores: 1, Bytes: 16 << 10, GBps: 99}, {Cores: 2, Bytes: 16 << 10, GBps: 150}},
		Hops: []probe.Hop{{From: 0, To: 1, US: 0.0812}}}
	var b bytes.Buffer
	must.Do(t, writeProbe(&b, "table", r))
	want := `cores  set per core  copy GB/s  read GB/s
    1          16Ki        123         99
    2          16Ki        200        150

one way                      us
cache line, core 0 to 1  0.0812
`
	if b.String() != want {
		t.Errorf("the table is\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	must.Do(t, writeProbe(&b, "json", r))
	var back probe.Result
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back.HopUS() != 0.0812 || len(back.Copy) != 2 {
		t.Errorf("json reads back as %+v, %v", back, err)
	}
	b.Reset()
	if err := writeProbe(&b, "table", probe.Result{Copy: r.Copy[:1], Read: r.Read[:1]}); err != nil ||
		strings.Contains(b.String(), "one way") {
		t.Errorf("a single core: %v\n%s", err, b.String())
	}
}
