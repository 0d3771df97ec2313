package floorplan

import (
	"flag"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/kernbench/kernbench/internal/accel/profile"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

var galleryFolder = flag.String("gallery", "", "write the pictures to this folder")

// TestGallery draws the profile of an all-reduce of 1 KiB over two SIPs. The figures show every kind of content of this
// package. It writes them if -gallery is given.
func TestGallery(t *testing.T) {
	r := must.Get(profile.Decode(must.Get(os.ReadFile("testdata/kernel.json.gz"))(t)))(t)
	figs := Figures([]Seen{{&journal.Row{}, "all-reduce of 1 KiB", r}})
	for _, want := range []figure.Content{&Plan{}, &figure.Timeline{}} {
		has := func(p figure.Panel) bool { return reflect.TypeOf(p.Content) == reflect.TypeOf(want) }
		if !slices.ContainsFunc(figs, func(f figure.Figure) bool { return slices.ContainsFunc(f.Panels, has) }) {
			t.Errorf("no figure has a panel of the type %T", want)
		}
	}
	for _, f := range figs {
		if *galleryFolder != "" {
			must.Get(figure.Write(*galleryFolder, ".", f))(t)
		}
	}
}
