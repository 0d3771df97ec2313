package accel

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/must"
)

// playground has the memory that the kernels of these tests use: n elements on two PEs and two matrices on the first.
type playground struct {
	*System
	x, y, a, b, c Shard
}

var here, there = PEID{}, PEID{Cube: 1}

func newPlayground(t *testing.T) playground {
	s := New(topo.Default(), ccl.Default())
	alloc := func(at PEID, n int) Shard { return must.Get(s.Alloc(at, n, n))(t) }
	return playground{s, alloc(here, 8), alloc(there, 8), alloc(here, 32), alloc(here, 32), alloc(here, 32)}
}

// product starts C = A x B on the first PE.
func (g playground) product(p *tl.PE) tl.Handle {
	return p.Composite(tl.Gemm{M: 32, K: 32, N: 32, A: tl.Ref(g.a.Ptr), B: tl.Ref(g.b.Ptr), Out: g.c.Ptr}) // F
}

// on returns a kernel that differs on the two PEs.
func on(first, second func(p *tl.PE)) tl.Kernel {
	return func(p *tl.PE) {
		if p.ID() == here {
			first(p)
		} else {
			second(p)
		}
	}
}

// Every wrong kernel is an error. In the messages, LINE stands for the line of this file that ends in the comment
// with the same letter, such as "// A".
func TestWrongKernels(t *testing.T) {
	idle := func(*tl.PE) {}
	for want, kernel := range map[string]func(g playground) tl.Kernel{
		"kernel on sip0.cube1.pe0: LINE(A): load: address 0 is invalid: is it the Ptr of a Shard that the PE does not " +
			"have (On returned false)?": func(g playground) tl.Kernel {
			x, _ := g.Zeros(0, 1, 8, OnCube(0))
			return func(p *tl.PE) {
				shard, _ := x.On(p.ID())
				p.Load(shard.Ptr, 8) // A
			}
		},
		"race on 16 bytes at sip0.cube0.pe0.hbm+0: sip0.cube0.pe0: store at LINE(B) (13.126 ns) writes them, " +
			"sip0.cube1.pe0: store at LINE(B) (46.422 ns) writes them; no message orders them": func(g playground) tl.Kernel {
			return func(p *tl.PE) {
				p.Store(g.x.Ptr, p.Scratch(8)) // B
			}
		},
		"race on 8 bytes at sip0.cube0.pe0.hbm+8: sip0.cube0.pe0: store at LINE(C) (TIME) writes them, " +
			"sip0.cube1.pe0: load at LINE(D) (TIME) reads them; no message orders them": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) {
				p.Store(g.x.Ptr.Plus(4), p.Scratch(4)) // C
			}, func(p *tl.PE) {
				p.Load(g.x.Ptr, 8) // D
			})
		},
		"race on 64 bytes at sip0.cube0.pe0.hbm+24576: sip0.cube0.pe0: load at LINE(E) (TIME) reads them, " +
			"sip0.cube0.pe0: composite at LINE(F) (TIME) writes them; wait for the composite first": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) {
				h := g.product(p)
				_ = p.Load(g.c.Ptr, 32) // E
				p.Wait(h)
			}, idle)
		},
		"sip0.cube0.pe0: LINE(G): composite: out overlaps A, which is read while tiles of the result are written": func(
			g playground) tl.Kernel {
			return on(func(p *tl.PE) {
				p.Wait(p.Composite(tl.Gemm{M: 32, K: 32, N: 32, A: tl.Ref(g.a.Ptr), B: tl.Ref(g.b.Ptr), // G
					Out: g.a.Ptr.Plus(32 * 31)}))
			}, idle)
		},
		"LINE(H): store: the tile allocated at LINE(I) was released by the Scope at LINE(J)": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) {
				var kept tl.Tile
				p.Scope(func() { // J
					kept = p.View(p.Load(g.x.Ptr, 8), 2, 4) // I
				})
				p.Store(g.x.Ptr, kept) // H
			}, idle)
		},
		"LINE(K): the Scope releases a tile that the composite at LINE(L) reads: wait for it first": func(
			g playground) tl.Kernel {
			return on(func(p *tl.PE) {
				var h tl.Handle
				p.Scope(func() { // K
					a := p.Load(g.a.Ptr, 32*32)
					h = p.Composite(tl.Gemm{M: 32, K: 32, N: 32, A: tl.Loaded(a), B: tl.Ref(g.b.Ptr), Out: g.c.Ptr}) // L
				})
				p.Wait(h)
			}, idle)
		},
		"LINE(M): add: the tile is read by the composite at LINE(N), which was not waited for": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) {
				a := p.Load(g.a.Ptr, 32*32)
				h := p.Composite(tl.Gemm{M: 32, K: 32, N: 32, A: tl.Loaded(a), B: tl.Ref(g.b.Ptr), Out: g.c.Ptr}) // N
				p.AddTo(p.View(a, 0, 8), p.Load(g.x.Ptr, 8))                                                      // M
				p.Wait(h)
			}, idle)
		},
		"LINE(O): wait: the composite at LINE(F) was already waited for at LINE(Q)": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) {
				h := g.product(p)
				p.Wait(h) // Q
				p.Wait(h) // O
			}, idle)
		},
		"kernel on sip0.cube1.pe0: LINE(R): the recv_async is never waited for": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) { p.Send(tl.E, p.Scratch(1)) }, func(p *tl.PE) {
				p.RecvAsync(tl.W, 1) // R
			})
		},
		"sip0.cube0.pe0: load at LINE(S): 18 bytes at sip0.cube0.pe0.hbm+120 reach beyond the 128 bytes that were " +
			"allocated at sip0.cube0.pe0.hbm+0": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) {
				p.Load(g.x.Ptr.Plus(60), 9) // S
			}, idle)
		},
		"sip0.cube0.pe0: store at LINE(U): 128 bytes at sip0.cube0.pe0.hbm+36864 were not allocated: the 4096 bytes at " +
			"sip0.cube0.pe0.hbm+32768 end before": func(g playground) tl.Kernel { // the next allocation is not reached
			rows, _ := g.Alloc(here, 32, 64)
			_, _ = g.Alloc(here, 32, 64)
			return on(func(p *tl.PE) {
				for row := 1; row <= rows.Rows; row++ {
					p.Store(rows.Ptr.Plus(row*rows.Cols), p.Scratch(rows.Cols)) // U
				}
			}, idle)
		},
		"race on 64 bytes at sip0.cube0.pe0.hbm+32768: sip0.cube0.pe0: composite at LINE(V) (TIME) writes them, " +
			"sip0.cube0.pe0: load at LINE(W) (TIME) reads them; wait for the composite first": func(g playground) tl.Kernel {
			d, _ := g.Alloc(here, 32, 32)
			return on(func(p *tl.PE) {
				first := g.product(p)
				second := p.Composite(tl.Gemm{M: 32, K: 32, N: 32, A: tl.Ref(g.a.Ptr), B: tl.Ref(g.b.Ptr), Out: d.Ptr}) // V
				p.Wait(first)
				p.Load(d.Ptr, 32) // W
				p.Wait(second)
			}, idle)
		},
		"LINE(a): store: the tile allocated at LINE(b) was released by the Scope at LINE(c)": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) {
				p.Scope(func() {
					var kept tl.Tile
					p.Scope(func() { // c
						kept = p.Load(g.x.Ptr, 8) // b
					})
					p.Store(g.x.Ptr, kept) // a
				})
			}, idle)
		},
		"sip0.cube0.pe0: store at LINE(d): 4 bytes at sip0.cube0.pe0.hbm+126 reach beyond the 128 bytes that were " +
			"allocated at sip0.cube0.pe0.hbm+0": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) {
				p.Store(g.x.Ptr.Plus(63), p.Scratch(2)) // d
			}, idle)
		},
		"race on 16 bytes at sip0.cube0.pe0.hbm+0: sip0.cube0.pe0: store at LINE(e) (TIME) writes them, " +
			"sip0.cube1.pe0: store at LINE(f) (TIME) writes them; no message orders them": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) {
				p.Send(tl.E, p.Scratch(1))
				p.Store(g.x.Ptr, p.Scratch(8)) // e
			}, func(p *tl.PE) {
				p.Recv(tl.W, 1)
				p.Store(g.x.Ptr, p.Scratch(8)) // f
			})
		},
		"sip0.cube0.pe0 sent f16 at LINE(g) that sip0.cube1.pe0 received as bf16 at LINE(h)": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) {
				p.Send(tl.E, p.Scratch(8)) // g
			}, func(p *tl.PE) {
				p.Recv(tl.W, 8, tl.BF16) // h
			})
		},
		"sip0.cube0.pe0 sent 1 message to sip0.cube1.pe0 that was not received (the first at LINE(i)): sip0.cube1.pe0 " +
			"has ended without receiving it": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) {
				p.Send(tl.E, p.Scratch(8)) // i
			}, idle)
		},
		"kernel on sip0.cube0.pe0: LINE(j): store: the tile is f32 and the memory f16: Cast the tile first": func(
			g playground) tl.Kernel {
			return on(func(p *tl.PE) {
				p.Store(g.x.Ptr, p.Scratch(8, tl.F32)) // j
			}, idle)
		},
		"kernel on sip0.cube0.pe0: LINE(k): a view of elements 6 to 9 of a tile of 8": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) {
				p.View(p.Load(g.x.Ptr, 8), 6, 3) // k
			}, idle)
		},
		"kernel on sip0.cube0.pe0: LINE(F): the composite is never waited for": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) { g.product(p) }, idle)
		},
		"sip0.cube0.pe0: load at LINE(T) (TIME) reads sip0.cube0.pe0.hbm+32776, which was allocated by Empty and never " +
			"written": func(g playground) tl.Kernel {
			e, _ := g.Empty(0, 1, 8, OnCube(0))
			return on(func(p *tl.PE) {
				p.Store(e.Shards[0].Ptr, p.Scratch(4))
				p.Load(e.Shards[0].Ptr, 4)
				p.Load(e.Shards[0].Ptr, 8) // T
			}, idle)
		},
	} {
		g := newPlayground(t)
		_, err := g.Launch(kernel(g), []PEID{here, there})
		if err == nil || !expected(t, want).MatchString(err.Error()) {
			t.Errorf("\ngot  %v\nwant %s", err, want)
		}
	}
	g := newPlayground(t)
	if _, err := g.Launch(idle, nil); err == nil || !strings.Contains(err.Error(), "no PEs are given") {
		t.Errorf("a launch on no PEs: %v", err)
	}
}

// expected replaces LINE(A) by the position of the line of this file that ends in "// A", and TIME by any time.
func expected(t *testing.T, want string) *regexp.Regexp {
	lines := strings.Split(string(must.Get(os.ReadFile("sanitize_test.go"))(t)), "\n")
	text := regexp.MustCompile(`LINE\\\((.)\\\)`).ReplaceAllStringFunc(regexp.QuoteMeta(want), func(mark string) string {
		for i, line := range lines {
			if strings.HasSuffix(line, "// "+mark[len(`LINE\(`):len(`LINE\(`)+1]) {
				return fmt.Sprintf("accel/sanitize_test.go:%d", i+1)
			}
		}
		return "accel/sanitize_test.go:[0-9]+"
	})
	return regexp.MustCompile(strings.ReplaceAll(text, "TIME", `[0-9.]+ ns`))
}

// Kernels whose accesses are ordered by messages, slots, waits or launches are accepted.
func TestOrderedKernels(t *testing.T) {
	for name, kernel := range map[string]func(g playground) tl.Kernel{
		"a message": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) { p.Store(g.x.Ptr, p.Scratch(8)); p.Send(tl.E, p.Scratch(1)) },
				func(p *tl.PE) { p.Recv(tl.W, 1); p.Store(g.x.Ptr, p.Load(g.x.Ptr, 8)) })
		},
		"a chain of messages": func(g playground) tl.Kernel {
			return func(p *tl.PE) {
				switch p.ID() {
				case here:
					p.Store(g.x.Ptr, p.Scratch(8))
					p.SendTo(PEID{Cube: 9, PE: 3}, p.Scratch(1))
				case there:
					p.RecvFrom(PEID{Cube: 9, PE: 3}, 1)
					p.Load(g.x.Ptr, 8)
				default:
					p.SendTo(there, p.RecvFrom(here, 1))
				}
			}
		},
		"an asynchronous receive": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) { p.Store(g.x.Ptr, p.Scratch(8)); p.Send(tl.E, p.Scratch(1)) },
				func(p *tl.PE) { p.Wait(p.RecvAsync(tl.W, 1)); p.Load(g.x.Ptr, 8) })
		},
		"a slot that is used again": func(g playground) tl.Kernel { // the fifth send needs the first slot
			return on(func(p *tl.PE) {
				for range g.CCL.Settings().Slots + 1 {
					p.Send(tl.E, p.Scratch(1))
				}
				p.Store(g.x.Ptr, p.Scratch(8))
			}, func(p *tl.PE) {
				p.Load(g.x.Ptr, 8)
				for range g.CCL.Settings().Slots + 1 {
					p.Recv(tl.W, 1)
				}
			})
		},
		"composites that were waited for": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) {
				p.Wait(g.product(p))
				p.Store(g.a.Ptr, p.Load(g.c.Ptr, 32))
				p.Wait(g.product(p))
				p.Send(tl.E, p.Scratch(1))
			}, func(p *tl.PE) { p.Recv(tl.W, 1); p.Load(g.c.Ptr, 32*32) })
		},
		"reads of one range, and writes beside each other": func(g playground) tl.Kernel {
			return func(p *tl.PE) { p.Store(g.x.Ptr.Plus(p.ProgramID(1)), p.View(p.Load(g.y.Ptr, 64), 0, 1)) }
		},
	} {
		g := newPlayground(t)
		if _, err := g.Launch(kernel(g),
			[]PEID{here, there, {Cube: 9, PE: 3}}[:2+min(1, strings.Count(name, "chain"))]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A message that was sent before the store, a slot that was not used again, and a composite that was waited for
// after the message do not order accesses.
func TestRaces(t *testing.T) {
	for name, kernel := range map[string]func(g playground) tl.Kernel{
		"a message that is too early": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) { p.Send(tl.E, p.Scratch(1)); p.Store(g.x.Ptr, p.Scratch(8)) },
				func(p *tl.PE) { p.Recv(tl.W, 1); p.Load(g.x.Ptr, 8) })
		},
		"an asynchronous receive that is waited for too late": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) { p.Store(g.x.Ptr, p.Scratch(8)); p.Send(tl.E, p.Scratch(1)) },
				func(p *tl.PE) { h := p.RecvAsync(tl.W, 1); p.Load(g.x.Ptr, 8); p.Wait(h) })
		},
		"slots that are not used again": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) {
				for range g.CCL.Settings().Slots {
					p.Send(tl.E, p.Scratch(1))
				}
				p.Store(g.x.Ptr, p.Scratch(8))
			}, func(p *tl.PE) {
				p.Load(g.x.Ptr, 8)
				for range g.CCL.Settings().Slots {
					p.Recv(tl.W, 1)
				}
			})
		},
		"a composite that runs on": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) { h := g.product(p); p.Send(tl.E, p.Scratch(1)); p.Wait(h) },
				func(p *tl.PE) { p.Recv(tl.W, 1); p.Load(g.c.Ptr, 1) })
		},
		"two composites": func(g playground) tl.Kernel {
			return on(func(p *tl.PE) { first, second := g.product(p), g.product(p); p.Wait(first); p.Wait(second) },
				func(*tl.PE) {})
		},
	} {
		g := newPlayground(t)
		_, err := g.Launch(kernel(g), []PEID{here, there})
		if err == nil || !strings.Contains(err.Error(), "race on") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The order of arrival at receives from any neighbour is reported with both sends, unless an answer orders them.
func TestArrivalOrder(t *testing.T) {
	g := newPlayground(t)
	middle, east := there, PEID{Cube: 2}
	kernel := func(answer bool) tl.Kernel {
		return func(p *tl.PE) {
			switch p.ID() {
			case here:
				p.Send(tl.E, p.Scratch(1)) // X
			case east:
				if answer {
					p.Recv(tl.W, 1)
				}
				p.Send(tl.W, p.Full(1, 1)) // Y
			default:
				p.Store(g.y.Ptr, p.RecvAny(1))
				if answer {
					p.Send(tl.E, p.Scratch(1))
				}
				p.Store(g.y.Ptr.Plus(1), p.RecvAny(1))
			}
		}
	}
	r := must.Get(g.Launch(kernel(false), []PEID{here, middle, east}))(t)
	want := "decides what sip0.cube1.pe0 receives from any neighbour at LINE(Z) and at LINE(Z): sip0.cube0.pe0: send at " +
		"LINE(X) (TIME) and sip0.cube2.pe0: send at LINE(Y) (TIME) are in no order"
	if !expected(t, want).MatchString(r.Unchecked) || !strings.HasSuffix(r.String(), r.Unchecked) {
		t.Errorf("\ngot  %s\nwant %s", r.Unchecked, want)
	}
	if r := must.Get(g.Launch(kernel(true), []PEID{here, middle, east}))(t); r.Unchecked != "" {
		t.Error(r.Unchecked)
	}
}

// Empty tensors are initialized by Set, and by kernels of earlier launches, also when captured before.
func TestEmpty(t *testing.T) {
	s := New(topo.Default(), ccl.Default())
	x, y := must.Get(s.Empty(0, 1, 8, OnCube(0)))(t), must.Get(s.Empty(0, 1, 8, OnCube(0)))(t)
	copied := must.Get(s.Capture(func(p *tl.PE) { p.Store(y.Shards[0].Ptr, p.Load(x.Shards[0].Ptr, 8)) }, []PEID{{}}))(t)
	reader := must.Get(s.Capture(func(p *tl.PE) { p.Load(y.Shards[0].Ptr, 8) }, []PEID{{}}))(t)
	if _, err := copied.Launch(); err == nil {
		t.Error("an empty tensor was read")
	}
	must.Do(t, x.Set(make([]Float16, 8)))
	if _, err := reader.Launch(); err == nil {
		t.Error("the copy was read before it was made")
	}
	must.Get(copied.Launch())(t)
	must.Get(reader.Launch())(t)
	if s.memory.empty != 0 {
		t.Errorf("%d ranges are not initialized", s.memory.empty)
	}
}
