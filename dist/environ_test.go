package dist

import (
	"context"
	"strings"
	"testing"
)

func TestFromEnv(t *testing.T) {
	torchrun := "RANK=1 LOCAL_RANK=1 WORLD_SIZE=4 MASTER_ADDR=n0 MASTER_PORT=29500 TORCHELASTIC_RUN_ID=j "
	openmpi := "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 PMIX_NAMESPACE=ns "
	secret := "KERNBENCH_DIST_SECRET=sixteen-or-more-of-them "
	for _, c := range []struct {
		name, environ string
		size          int
		hosts         bool // the Config has an Exchange
		fault         string
	}{
		{"alone", "HOME=/root", 1, false, ""},
		{"one host", torchrun + "LOCAL_WORLD_SIZE=4", 4, false, ""},
		{"several hosts", torchrun + secret + "LOCAL_WORLD_SIZE=2", 4, true, ""},
		{"no secret", torchrun + "LOCAL_WORLD_SIZE=2", 0, false, "set KERNBENCH_DIST_SECRET to at least 16 characters"},
		{"short secret", torchrun + "LOCAL_WORLD_SIZE=2 KERNBENCH_DIST_SECRET=abc", 0, false,
			"set KERNBENCH_DIST_SECRET to at least 16 characters"},
		{"mpirun on one host", openmpi + "OMPI_COMM_WORLD_LOCAL_SIZE=4", 4, false, ""},
		{"mpirun on several", openmpi + secret + "OMPI_COMM_WORLD_LOCAL_SIZE=2", 0, false,
			"mpirun's ranks are on several hosts and need an address to meet at: set MASTER_ADDR"},
		{"mpirun with a place", openmpi + secret + "OMPI_COMM_WORLD_LOCAL_SIZE=2 MASTER_ADDR=n0 MASTER_PORT=29500", 4, true,
			""},
		{"contradiction", strings.Replace(torchrun, "RANK=1", "RANK=4", 1) + "LOCAL_WORLD_SIZE=4", 0, false, "inconsistent"},
	} {
		environ := strings.Fields(c.environ)
		config, err := fromEnviron(environ, func(name string) string {
			for _, e := range environ {
				if value, found := strings.CutPrefix(e, name+"="); found {
					return value
				}
			}
			return ""
		})
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %q", c.name, err, c.fault)
			}
			continue
		}
		if err != nil || config.Size != c.size || (config.Exchange != nil) != c.hosts || config.ID == "" ||
			c.size > 1 && config.Rank != 1 {
			t.Errorf("%s: rank %d of %d, ID %q, over hosts %v (%v)", c.name, config.Rank, config.Size, config.ID,
				config.Exchange != nil, err)
		}
	}
}

func init() {
	Register(Description{Name: "in-process", InProcess: true}, nil)
}

// Only ranks on several hosts without an Exchange are refused, because they would wait for each other
// in vain.
func TestRanksOfSeveralHostsNeedAnExchange(t *testing.T) {
	const job = "RANK=1 LOCAL_RANK=1 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=n0 MASTER_PORT=29500 " +
		"TORCHELASTIC_RUN_ID=j"
	exchange := func(context.Context, []byte) ([][]byte, error) { return nil, nil }
	for _, c := range []struct {
		name, environ string
		config        Config
		refused       bool
	}{
		{"all of the job", job, Config{Rank: 1, Size: 4}, true},
		{"three of four", job, Config{Rank: 1, Size: 3}, true},
		{"the ranks of one host", job, Config{Rank: 1, Size: 2}, false},
		{"alone", job, Config{Rank: 0, Size: 1}, false},
		{"with an exchange", job, Config{Rank: 1, Size: 4, Exchange: exchange}, false},
		{"another rank of the process", job, Config{Rank: 3, Size: 4}, false},
		{"goroutines", job, Config{Rank: 1, Size: 4, Backend: "in-process"}, false},
		{"one host", strings.Replace(job, "LOCAL_WORLD_SIZE=2", "LOCAL_WORLD_SIZE=4", 1), Config{Rank: 1, Size: 4}, false},
		{"no job", "HOME=/", Config{Rank: 1, Size: 4}, false},
	} {
		err := c.config.checkHosts(strings.Fields(c.environ))
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "torchrun started 2 of 4 here") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
