package worker

import (
	"fmt"
	"os"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// maybeHelper makes this process a helper if its environment says so.
func maybeHelper(benches []*bench.Bench) (exitCode int, is bool) {
	role, is := os.LookupEnv(launch.HelperVar)
	if !is {
		return 0, false
	}
	os.Unsetenv(launch.HelperVar)
	benchName, name, _ := strings.Cut(role, "/")
	for _, b := range benches {
		if f := b.Helpers[name]; b.Name == benchName && f != nil {
			if err := f(os.Args[1:]); err != nil {
				fmt.Fprintf(os.Stderr, "helper %s: %v\n", role, err)
				return 1, true
			}
			return 0, true
		}
	}
	fmt.Fprintf(os.Stderr, "helper %s: this program has none\n", role)
	return 1, true
}
