package draw

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// The standard library reads the same pixels back, with equal rows and different ones.
func TestWritePNG(t *testing.T) {
	for _, size := range []image.Point{{1, 1}, {3, 2}, {40, 30}} {
		m := image.NewRGBA(image.Rectangle{Max: size})
		random := rand.New(rand.NewPCG(1, uint64(size.X)))
		for y := range size.Y {
			for x := range size.X {
				c := color.RGBA{R: 250, G: uint8(x), B: 7, A: 255}
				if y%3 == 0 {
					c.R = uint8(random.Uint32())
				}
				m.SetRGBA(x, y, c)
			}
		}
		var file bytes.Buffer
		if err := writePNG(&file, m); err != nil {
			t.Fatal(err)
		}
		back := must.Get(png.Decode(&file))(t)
		for y := range size.Y {
			for x := range size.X {
				if got, want := color.RGBAModel.Convert(back.At(x, y)), m.RGBAAt(x, y); got != want {
					t.Fatalf("%v: pixel %d,%d is %v, want %v", size, x, y, got, want)
				}
			}
		}
	}
}
