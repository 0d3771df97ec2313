package job

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/spf13/pflag"
)

func TestProcsPerNode(t *testing.T) {
	for _, c := range []struct {
		text string
		gpus int
		want int // 0 for a refusal
	}{
		{"3", 0, 3}, {"cpu", 4, 6}, {"gpu", 4, 4}, {"gpu", 0, 0}, {"auto", 4, 4}, {"auto", 0, 6}, {"0", 0, 0},
		{"many", 0, 0}, {"", 0, 0},
	} {
		got, err := ProcsPerNode(c.text, 6, func() int { return c.gpus })
		if got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%+v: %d, %v", c, got, err)
		}
	}
}

func TestNodes(t *testing.T) {
	for text, want := range map[string]struct {
		nodes int
		err   string
	}{"2": {2, ""}, "2:2": {2, ""}, "1:4": {0, "give 1 or 4"}, "4:1": {0, "want"}, "0": {0, "want"}, "0:2": {0, "want"},
		"": {0, "want"}, "2:": {0, "want"}, ":2": {0, "want"}, "1:2:3": {0, "want"}, "two": {0, "want"}} {
		got, err := Nodes(text)
		if got != want.nodes || (err == nil) != (got > 0) || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestProgram(t *testing.T) {
	for _, c := range []struct {
		args             string
		module, noPython bool
		want             string
	}{
		{"train.py --lr 1", false, false, "python3 -u train.py --lr 1"},
		{"train.py --lr 1", false, true, "train.py --lr 1"},
		{"pkg.train --lr 1", true, false, "python3 -u -m pkg.train --lr 1"},
		{"./program x.py", false, false, "./program x.py"},
		{"pkg", true, true, ""},
	} {
		got, err := Program(strings.Fields(c.args), c.module, c.noPython)
		if strings.Join(got, " ") != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

func TestJoinTimeout(t *testing.T) {
	for conf, want := range map[string]time.Duration{
		"": 0, "join_timeout=90": 90 * time.Second, "timeout=2.5,is_host=1": 2500 * time.Millisecond,
		"read_timeout=3": 0, "last_call_timeout=5,timeout=2": 2 * time.Second,
	} {
		if join, err := JoinTimeout(conf); err != nil || join != want {
			t.Errorf("%q: %v, %v", conf, join, err)
		}
	}
	for _, conf := range []string{"join_timeout", "timeout=soon", "timeout=-1", "join_timeout="} {
		if _, err := JoinTimeout(conf); err == nil {
			t.Errorf("%q is accepted", conf)
		}
	}
}

// The derived ports of rank 0 are within the allowed range.
func TestDerivedPorts(t *testing.T) {
	within := connection.PortRange{First: 29500, Last: 29599}
	for _, c := range []struct {
		job    jobenv.Job
		within connection.PortRange
		first  int // 0: of a hash
	}{
		{jobenv.Job{MasterPort: 29510}, within, 29512}, {jobenv.Job{MasterPort: 29510}, connection.PortRange{}, 29512},
		{jobenv.Job{MasterPort: 4000}, within, 29500}, {jobenv.Job{MasterPort: 29598}, within, 29500},
		{jobenv.Job{ID: "7"}, within, 29500},
		{jobenv.Job{ID: "7"}, connection.PortRange{}, 0},
	} {
		got := derivedPorts(&c.job, c.within)
		if len(got) != 8 || c.first != 0 && got[0] != c.first || c.first == 0 && (got[0] < 20000 || got[7] > 30007) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// The command line takes precedence over torchrun's variables.
func TestFromPET(t *testing.T) {
	fl := pflag.NewFlagSet("", pflag.ContinueOnError)
	nodes, id := fl.Int("nnodes", 1, ""), fl.String("rdzv-id", "none", "")
	must.Do(t, fl.Parse([]string{"--rdzv-id", "mine"}))
	environ := []string{"PET_NNODES=2", "PET_RDZV_ID=theirs", "PET_UNKNOWN=1"}
	if err := FromPET(fl, environ); err != nil || *nodes != 2 || *id != "mine" {
		t.Errorf("%d nodes of %q, %v", *nodes, *id, err)
	}
	fl = pflag.NewFlagSet("", pflag.ContinueOnError)
	fl.Int("nnodes", 1, "")
	if err := FromPET(fl, slices.Concat(environ, []string{"PET_NNODES=two"})); err == nil ||
		!strings.Contains(err.Error(), "PET_NNODES") {
		t.Errorf("got %v", err)
	}
}
