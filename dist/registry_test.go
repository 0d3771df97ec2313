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
	if got, want := dist.Backends(nil), []string{"cpu", "in-process", "refusing", "test-only"}; !slices.Equal(got, want) {
		t.Errorf("the backends are %v, want %v", got, want)
	}
	sends := dist.Backends(func(d dist.Description) bool { return d.Can(dist.Send) && !d.Can(dist.Recv) })
	if !slices.Equal(sends, []string{"test-only"}) {
		t.Errorf("the backends that only send are %v", sends)
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

// TestDocumentedOrders compares the package comment with the registrations of the algorithms that it
// names. It need not name all of them: an algorithm may be added without a change of the comment.
func TestDocumentedOrders(t *testing.T) {
	text := must.Get(os.ReadFile("doc.go"))(t)
	bullets := regexp.MustCompile(`//   - ((?:.*\n//     )?.*)\n`).FindAllStringSubmatch(string(text), -1)
	if len(bullets) != 3 {
		t.Fatalf("the package comment has %d bullets, want 3", len(bullets))
	}
	names := func(i int, name string) bool {
		return slices.Contains(strings.FieldsFunc(bullets[i][1], func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz-", r)
		}), name)
	}
	documented := 0
	for _, info := range schedule.Algorithms(schedule.AllReduce) {
		rankOrder, wide, ownOrder := names(0, info.Name), names(1, info.Name), names(2, info.Name)
		if !rankOrder && !wide && !ownOrder {
			continue
		}
		documented++
		if rankOrder != (info.Order == schedule.RankOrder) || ownOrder == rankOrder || wide != info.Wide {
			t.Errorf("%s: the comment says rank order %v, own order %v, rounded once %v; registered with %v, %v",
				info.Name, rankOrder, ownOrder, wide, info.Order, info.Wide)
		}
	}
	if documented < 9 {
		t.Errorf("the comment names %d algorithms, want at least the 9 built-in ones", documented)
	}
}
