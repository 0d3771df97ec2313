package job

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/internal/host/jobenv"
)

// FromPET gives flags that the command line leaves out the values of torchrun's
// variables: PET_NNODES for --nnodes, and so on.
func FromPET(fl *pflag.FlagSet, environ []string) (err error) {
	values := jobenv.Variables(environ)
	fl.VisitAll(func(f *pflag.Flag) {
		name := "PET_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := values[name]
		if value == "" || f.Changed || err != nil {
			return
		}
		if e := fl.Set(f.Name, value); e != nil {
			err = fmt.Errorf("the variable %s: %w", name, e)
		}
	})
	return err
}

// Nodes reads --nnodes: a number, or a range of torchrun's that leaves no choice.
func Nodes(text string) (int, error) {
	least, most, ranged := strings.Cut(text, ":")
	n, err := strconv.Atoi(least)
	switch {
	case err != nil || n < 1:
		return 0, fmt.Errorf("--nnodes %s: want a whole number of at least 1", text)
	case ranged && most != least:
		return 0, fmt.Errorf("--nnodes %s: a job cannot grow and shrink here: want one number", text)
	}
	return n, nil
}

// ProcsPerNode reads --nproc-per-node: a number, or what this node has of something. A
// machine whose GPUs cannot be counted has none.
func ProcsPerNode(text string, cores int, gpus func() int) (int, error) {
	switch text {
	case "cpu":
		return cores, nil
	case "gpu":
		if n := gpus(); n > 0 {
			return n, nil
		}
		return 0, fmt.Errorf("--nproc-per-node gpu: there is no GPU here (kernbench doctor says why)")
	case "auto":
		if n := gpus(); n > 0 {
			return n, nil
		}
		return cores, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("--nproc-per-node %s: want a whole number of at least 1, auto, gpu or cpu", text)
	}
	return n, nil
}

// Program is the command of a rank as torchrun means it: a module (-m) and a file of
// Python run under python3, all else as it is.
func Program(args []string, module, noPython bool) ([]string, error) {
	python := []string{"python3", "-u"}
	switch {
	case module && noPython:
		return nil, fmt.Errorf("-m names a module of Python: leave out one of -m and --no-python")
	case module:
		return append(append(python, "-m"), args...), nil
	case !noPython && strings.HasSuffix(args[0], ".py"):
		return append(python, args...), nil
	}
	return args, nil
}

// JoinTimeout reads torchrun's --rdzv-conf, of which only how long to wait for the
// nodes means something here.
func JoinTimeout(conf string, otherwise time.Duration) (time.Duration, error) {
	for part := range strings.SplitSeq(conf, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case part == "":
		case !ok:
			return 0, fmt.Errorf("--rdzv-conf %q: want KEY=VALUE,KEY=VALUE", conf)
		case name == "join_timeout" || name == "timeout":
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil || !(seconds > 0) || seconds > 1e9 {
				return 0, fmt.Errorf("--rdzv-conf %s=%s: want a number of seconds", name, value)
			}
			otherwise = time.Duration(seconds * float64(time.Second))
		}
	}
	return otherwise, nil
}
