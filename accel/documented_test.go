package accel

import (
	"regexp"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/texttab"
)

// TestDocumentedErrors compares the messages in docs/accelerator-kernels.md with the errors of
// wrong kernels. The page wraps them, and calls the file of the kernels main.go.
func TestDocumentedErrors(t *testing.T) {
	launch := func(kernel func(g playground) tl.Kernel) string {
		g := newPlayground(t)
		_, err := g.Launch(kernel(g), []PEID{here, there})
		if err == nil {
			t.Fatal("a wrong kernel is accepted")
		}
		return err.Error()
	}
	idle := func(*tl.PE) {}
	golden.Shown(t, "wrong-kernels", documented(
		launch(func(g playground) tl.Kernel {
			x, _ := g.Zeros(0, 1, 8, OnCube(0))
			return func(p *tl.PE) {
				shard, _ := x.On(p.ID())
				p.Load(shard.Ptr, 8)
			}
		}),
		launch(func(g playground) tl.Kernel {
			return func(p *tl.PE) { p.Store(g.x.Ptr, p.Scratch(8)) }
		}),
		launch(func(g playground) tl.Kernel {
			return on(func(p *tl.PE) { p.Recv(tl.E, 1) },
				func(p *tl.PE) { p.Recv(tl.W, 1) })
		})))
	golden.Shown(t, "store-beyond", documented(launch(func(g playground) tl.Kernel {
		rows, _ := g.Alloc(here, 32, 64)
		return on(func(p *tl.PE) {
			for row := 1; row <= rows.Rows; row++ {
				p.Store(rows.Ptr.Plus(row*rows.Cols), p.Scratch(rows.Cols))
			}
		}, idle)
	})))

	g := newPlayground(t)
	result := must.Get(g.Launch(func(p *tl.PE) {
		switch p.ID() {
		case here:
			p.Send(tl.E, p.Scratch(1))
		case there:
			p.Store(g.y.Ptr, p.RecvAny(1))
			p.Store(g.y.Ptr.Plus(1), p.RecvAny(1))
		default:
			p.Send(tl.W, p.Full(1, 1))
		}
	}, []PEID{here, there, {Cube: 2}}))(t)
	golden.Shown(t, "order-of-arrival", documented(result.Unchecked))
}

// documented formats messages as the page shows them.
func documented(messages ...string) string {
	for i, m := range messages {
		m = regexp.MustCompile(`accel/documented_test\.go`).ReplaceAllString(m, "main.go")
		messages[i] = texttab.Wrap(strings.Fields(m), 118, "")
	}
	return strings.Join(messages, "\n")
}
