package mpi

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/disttest"
)

func init() {
	bodies["suite"] = func(r *rank) error { return r.suite(Name) }
}

// suite runs the conformance suite as one of its processes.
func (r *rank) suite(backend string) error {
	s := disttest.Suite{Sizes: []int{r.size}, Short: os.Getenv(argVar) != "long", Meet: r.meet,
		Open: func(size int, timeout time.Duration) ([]*dist.Group, error) {
			g, err := r.joinBy(backend, timeout)
			return []*dist.Group{g}, err
		}}
	only := os.Getenv(onlyVar)
	var faults []error
	for _, c := range s.Cases() {
		if !fits(c.Name, r.size) || only != "" && only != c.Name {
			continue
		}
		began := time.Now()
		if err := c.Check(); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", c.Name, err))
		}
		if r.rank == 0 {
			fmt.Println("CHECKED", c.Name, time.Since(began).Round(time.Millisecond))
		}
		if err := r.meet(); err != nil {
			return err
		}
	}
	return errors.Join(faults...)
}

// onlyVar names the one case to run.
const onlyVar = "MPI_TEST_ONLY"

// fits tells whether a case is for so many ranks.
func fits(name string, size int) bool {
	switch {
	case name == "refused":
		return size == 2
	case name == "absent", name == "left", strings.HasPrefix(name, "misuse/"):
		return size == 3
	}
	return true
}

// The whole suite, by both libraries, with ranks on one host and as if each
// were on its own.
func TestConformance(t *testing.T) {
	for _, l := range launchers {
		for _, hosts := range []string{"", "apart"} {
			for _, n := range []int{1, 2, 3, 4} {
				if testing.Short() && n != 3 || hosts != "" && n == 1 {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d%s", l.family, n, hosts), func(t *testing.T) {
					out, err := l.ranks(t, n, "suite", hostsVar+"="+hosts)
					if err != nil {
						t.Errorf("%v\n%s", err, out)
					}
					// What is not run shows nothing.
					if got := strings.Count(out, "CHECKED"); got < 15 {
						t.Errorf("only %d cases were checked", got)
					}
				})
			}
		}
	}
}
