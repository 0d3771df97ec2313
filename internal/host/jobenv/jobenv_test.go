package jobenv

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Environments that the launchers set.
var (
	torchrun = strings.Fields(`RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=1 MASTER_ADDR=node0 MASTER_PORT=29501
		TORCHELASTIC_RUN_ID=job7 TORCHELASTIC_RESTART_COUNT=0`)
	openmpi = strings.Fields(`OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2
		OMPI_COMM_WORLD_NODE_RANK=1 OMPI_UNIVERSE_SIZE=4 PMIX_RANK=3 PMIX_NAMESPACE=1234`)
	hydra = strings.Fields(`PMI_RANK=2 PMI_SIZE=3 PMI_FD=6 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1 HYDI_CONTROL_FD=7`)
	srun  = strings.Fields(`SLURM_PROCID=9 SLURM_LOCALID=1 SLURM_NODEID=2 SLURM_NTASKS=11 SLURM_STEP_NUM_TASKS=11
		SLURM_STEP_TASKS_PER_NODE=4(x2),3 SLURM_JOB_ID=99 SLURM_STEP_ID=4 SLURM_STEP_NUM_NODES=3 SLURM_STEP_NODELIST=n[07-09]`)
)

func TestDetect(t *testing.T) {
	without := func(env []string, name string) []string {
		out := slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, name+"=") })
		if len(out) == len(env) {
			t.Fatalf("%s is not there to be removed", name)
		}
		return out
	}
	inTorchrun := &Job{Launcher: Torchrun, ID: "job7", Rank: 5, Size: 8, LocalRank: 1, LocalSize: 4, MasterAddr: "node0",
		MasterPort: 29501, RootHost: "node0", RankVar: "RANK"}
	again := *inTorchrun
	again.Restarts = 2
	restarted := &again
	inOpenMPI := &Job{Launcher: OpenMPI, ID: "1234", Rank: 3, Size: 4, LocalRank: 1, LocalSize: 2,
		RankVar: "OMPI_COMM_WORLD_RANK"}
	inSrun := &Job{Launcher: Srun, ID: "99.4", Rank: 9, Size: 11, LocalRank: 1, LocalSize: 3, RootHost: "n07",
		RankVar: "SLURM_PROCID"}
	for _, c := range []struct {
		name string
		env  []string
		want *Job
	}{
		{"nothing", nil, nil},
		{"torchrun", torchrun, inTorchrun},
		{"torchrun, restarted", append(slices.Clone(torchrun), "TORCHELASTIC_RESTART_COUNT=2"), restarted},
		{"Open MPI", openmpi, inOpenMPI},
		{"Hydra", hydra, &Job{Launcher: Hydra, Rank: 2, Size: 3, LocalSize: 1, RankVar: "PMI_RANK"}},
		{"srun", srun, inSrun},
		{"torchrun started by srun", slices.Concat(srun, torchrun), inTorchrun},
		{"mpirun within an srun step", slices.Concat(srun, openmpi), inOpenMPI},
		{"a batch script of Slurm is no rank",
			strings.Fields("SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NTASKS=4 SLURM_JOB_ID=99"), nil},
		{"RANK and WORLD_SIZE of whole pods", strings.Fields("RANK=1 WORLD_SIZE=4 MASTER_ADDR=a MASTER_PORT=1"), nil},
		{"torchrun without a port", without(torchrun, "MASTER_PORT"), nil},
		{"Open MPI without its local size", without(openmpi, "OMPI_COMM_WORLD_LOCAL_SIZE"), nil},
		{"Hydra without its size", without(hydra, "PMI_SIZE"), nil},
		{"srun without a step", without(srun, "SLURM_STEP_NUM_TASKS"), nil},
		{"a single rank", strings.Fields("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 " +
			"OMPI_COMM_WORLD_LOCAL_SIZE=1"),
			&Job{Launcher: OpenMPI, Size: 1, LocalSize: 1, RankVar: "OMPI_COMM_WORLD_RANK"}},
		{"one task by srun, several ranks by mpirun",
			slices.Concat(openmpi, strings.Fields("SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_STEP_NUM_TASKS=1 "+
				"SLURM_STEP_TASKS_PER_NODE=1")), inOpenMPI},
		{"a single rank by torchrun, several by srun",
			slices.Concat(srun, strings.Fields("RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 "+
				"MASTER_ADDR=a MASTER_PORT=1")), inSrun},
	} {
		got, err := Detect(c.env)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

func TestDetectFaults(t *testing.T) {
	for _, c := range []struct{ base, replace, want string }{
		{"torchrun", "RANK=8", "inconsistent"},
		{"torchrun", "RANK=five", `RANK="five" is not a count`},
		{"torchrun", "RANK=-1", "is not a count"},
		{"torchrun", "LOCAL_RANK=4", "inconsistent"},
		{"torchrun", "LOCAL_WORLD_SIZE=9", "inconsistent"},
		{"torchrun", "MASTER_PORT=70000", "is not a port"},
		{"srun", "SLURM_NODEID=3", "has no node 3"},
		{"srun", "SLURM_NODEID=x", "SLURM_NODEID"},
		{"srun", "SLURM_STEP_TASKS_PER_NODE=4(x2", "is not a list"},
		{"srun", "SLURM_STEP_TASKS_PER_NODE=0", "is not a list"},
	} {
		env := append(slices.Clone(map[string][]string{"torchrun": torchrun, "srun": srun}[c.base]), c.replace)
		j, err := Detect(env)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: got %+v, %v, want an error with %q", c.base, c.replace, j, err, c.want)
		}
	}
}

func FuzzDetect(f *testing.F) {
	for _, env := range [][]string{torchrun, openmpi, hydra, srun} {
		f.Add(strings.Join(env, "\n"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		j, err := Detect(strings.Split(text, "\n"))
		if err != nil || j == nil {
			return
		}
		if j.Size < 1 || j.Rank < 0 || j.Rank >= j.Size || j.LocalRank < 0 || j.LocalRank >= j.LocalSize ||
			j.LocalSize > j.Size {
			t.Errorf("an impossible rank: %+v", j)
		}
	})
}

func TestFirstHost(t *testing.T) {
	for list, want := range map[string]string{
		"n1": "n1", "n1,n2": "n1", "n[1-4]": "n1", "n[007-010,12]": "n007", "n[3,5]": "n3",
		"rack[2-5]n[1-3],other": "rack2n1",
		"n[12]-ib,m":            "n12-ib", "": "", "n[": "n", "n[]x": "nx", "n[[": "n",
	} {
		if got := firstHost(list); got != want {
			t.Errorf("%q: got %q, want %q", list, got, want)
		}
	}
}

func FuzzFirstHost(f *testing.F) {
	f.Add("rack[02-05,9]n[1-3],other")
	f.Fuzz(func(t *testing.T, list string) {
		if got := firstHost(list); strings.ContainsAny(got, "[,") {
			t.Errorf("%q: %q is no host", list, got)
		}
	})
}
