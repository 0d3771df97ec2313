package floorplan

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/accel/profile"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// record returns the profile of a kernel whose critical path visits this many PEs.
func record(pes int) *profile.Record {
	r := &profile.Record{Version: profile.Version, Fabric: "flits", SIPs: 2, Kernel: int64(pes) * 1000, Bucket: 1000,
		Buckets: pes,
		Plan:    profile.Plan{W: 20, H: 15, Boxes: []profile.Box{{Kind: "cube", Name: "cube0", W: 18, H: 12, Y: 3}}}}
	for i := range 12 {
		r.Links = append(r.Links, profile.Link{Name: fmt.Sprintf("sip1.<b>link%d</b>", i), SIP: 1,
			Line:  [4]float64{1, float64(i), 5, float64(i)},
			Bytes: int64(1000 - i), Busy: r.Kernel / int64(i+2), Wait: int64(i), Load: []byte{255, byte(i)}})
	}
	for i := range pes {
		r.Path = append(r.Path, profile.Step{PE: fmt.Sprintf("sip0.cube%d.pe0", i), Part: "pe_math", Op: "math",
			From: int64(i) * 1000, To: int64(i+1) * 1000,
			Causes: map[string]int64{"compute": 700, "queueing": 300}})
	}
	return r
}

func store(t *testing.T, dir, name string, r *profile.Record) {
	t.Helper()
	data, err := r.Encode()
	if err == nil {
		err = journal.WriteInside(dir, name, data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The longest kernel of each part is loaded. A missing file is skipped, a damaged one is
// an error, and a path out of the folder is refused.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	store(t, dir, "long.json.gz", record(40))
	store(t, dir, "short.json.gz", record(3))
	must.Do(t, os.WriteFile(filepath.Join(dir, "inside", "bad.json.gz"), []byte("junk"), 0o666))
	must.Do(t, os.Symlink(filepath.Join(dir, "inside", "long.json.gz"), filepath.Join(dir, "inside", "link.json.gz")))
	row := func(part, file string, us float64) journal.Row {
		return journal.Row{Part: part, Inside: file, Status: journal.OK, Metrics: map[string]float64{"time_us": us}}
	}
	failed := row("a", "bad.json.gz", 99)
	failed.Status = journal.Failed
	rows := []journal.Row{row("a", "short.json.gz", 1), row("a", "long.json.gz", 40), failed, row("b", "gone.json.gz", 1),
		row("c", "", 7)}
	seen, errs := Load(dir, dataset.All(rows))
	if len(errs) > 0 || len(seen) != 1 || seen[0].Row.Inside != "long.json.gz" {
		t.Fatalf("%+v, %v", seen, errs)
	}
	for _, bad := range []string{"bad.json.gz", "../inside/long.json.gz", ".", "link.json.gz"} {
		if _, errs := Load(dir, dataset.All([]journal.Row{row("a", bad, 1)})); len(errs) != 1 {
			t.Errorf("%s: %v", bad, errs)
		}
	}
}

// The figures can be drawn, their size is bounded, and their texts are escaped.
func TestFigures(t *testing.T) {
	for _, pes := range []int{1, 5, 300} {
		s := Seen{&journal.Row{Part: "a<b>"}, "<b>", record(pes)}
		figs := Figures([]Seen{s})
		for _, f := range figs {
			var svg bytes.Buffer
			if err := figure.SVG(&svg, f); err != nil || strings.Contains(svg.String(), "<b>") {
				t.Errorf("%s: %v", f.Name, err)
			}
		}
		chain := figs[1].Panels[0].Content.(*figure.Timeline)
		time := 0.0
		for _, l := range chain.Rows {
			for _, b := range l.Spans {
				time += b.To - b.From
			}
		}
		if len(chain.Rows) > maxLanes+1 || time < micros(s.Record.Kernel)-1e-9 || time > micros(s.Record.Kernel)+1e-9 {
			t.Errorf("%d lanes of %g us, the kernel takes %g", len(chain.Rows), time, micros(s.Record.Kernel))
		}
		sections := Sections([]Seen{s})
		if links := sections[0].Table; len(links) != 11 ||
			strings.Join(links[1], "|") != fmt.Sprintf("sip1.<b>link0</b>|1000|50.0 %%|0 µs") {
			t.Errorf("%q", links)
		}
		if path := sections[1].Table; len(path) > maxLines+2 || !strings.Contains(fmt.Sprint(path), "compute") {
			t.Errorf("%d lines", len(path))
		}
	}
	for want, f := range map[string]figure.Content{
		"floor plan of 0 x 1": &Plan{Plan: profile.Plan{H: 1}, Most: 1},
	} {
		if err := (figure.Figure{Name: "x", Panels: []figure.Panel{{Content: f}}}).Validate(); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Any stored profile is refused or becomes figures and tables. Drawing them would take most of the time.
func FuzzProfile(f *testing.F) {
	f.Add(must.Get(json.Marshal(record(2)))(f))
	f.Fuzz(func(t *testing.T, text []byte) {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		must.Get(z.Write(text))(t)
		must.Do(t, z.Close())
		r, err := profile.Decode(packed.Bytes())
		if err != nil {
			return
		}
		seen := []Seen{{&journal.Row{Part: "a"}, "label", r}}
		if len(Figures(seen)) != 2 || len(Sections(seen)) != 2 {
			t.Errorf("%s has no figures", text)
		}
	})
}
