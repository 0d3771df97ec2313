package dist_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// backend can be registered, but not joined.
type backend struct{}

var asked dist.Config

func (backend) Join(_ context.Context, c dist.Config) (dist.Engine, error) {
	asked = c
	return nil, errors.New("nobody can join")
}

func init() {
	dist.Register(dist.Description{Name: "test-only", Simulated: true,
		Capabilities: dist.Capabilities{Ops: []dist.Collective{dist.Send}}}, backend{})
}

// Describe and Backends find a backend by its name and by its declared capabilities.
func TestDescribed(t *testing.T) {
	if got, want := dist.Backends(nil), []string{"cpu", "in-process", "test-only"}; !slices.Equal(got, want) {
		t.Errorf("the backends are %v, want %v", got, want)
	}
	sends := dist.Backends(func(d dist.Description) bool { return d.Can(dist.Send) && !d.Can(dist.Recv) })
	if !slices.Equal(sends, []string{"test-only"}) {
		t.Errorf("those that only send are %v", sends)
	}
	if d := dist.Describe("test-only"); !d.Simulated || d.InProcess || d.HostMemory {
		t.Errorf("described as %+v", d)
	}
	if d := dist.Describe("nobody"); d.Name != "nobody" || len(d.Ops) > 0 {
		t.Errorf("an unknown one is described as %+v", d)
	}
	if b, ok := dist.As[backend]("test-only"); !ok || b != (backend{}) {
		t.Error("the backend is not found by its type")
	}
	for _, name := range []string{"cpu", "nobody"} {
		if _, ok := dist.As[backend](name); ok {
			t.Errorf("%s is found as a backend of this test", name)
		}
	}
	for _, name := range []string{"cpu", ""} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was registered again", name)
				}
			}()
			dist.Register(dist.Description{Name: name}, backend{})
		}()
	}
}

// The package comment must describe the order of additions of every algorithm as the algorithm's
// registration does.
func TestDocumentedOrders(t *testing.T) {
	text := must.Get(os.ReadFile("doc.go"))(t)
	bullets := regexp.MustCompile(`//   - ((?:.*\n//     )?.*)\n`).FindAllStringSubmatch(string(text), -1)
	if len(bullets) != 3 {
		t.Fatalf("the package comment has %d statements", len(bullets))
	}
	says := func(i int, name string) bool {
		return slices.Contains(strings.FieldsFunc(bullets[i][1], func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz-", r)
		}), name)
	}
	for _, info := range schedule.Algorithms(schedule.AllReduce) {
		rank := info.Order == schedule.RankOrder
		if says(0, info.Name) != rank || says(1, info.Name) != info.Wide || says(2, info.Name) == rank {
			t.Errorf("%s: declared rank order %v, rounded once %v", info.Name, rank, info.Wide)
		}
	}
}
