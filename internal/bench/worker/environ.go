package worker

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"syscall"

	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// plannedVar holds the planned variables of a worker that another launcher starts. What
// that launcher, or a login on another host, has made of them is put right there: a
// variable that is not to be set cannot be taken from an environment that is not known
// here.
const plannedVar = "KERNBENCH_PLANNED"

// PlannedVars are the variables of workers that another launcher starts, and their values.
func PlannedVars(set launch.EnvOverrides) (map[string]string, error) {
	text, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("planning an environment: %w", err)
	}
	return map[string]string{plannedVar: base64.StdEncoding.EncodeToString(text)}, nil
}

// correct gives the environment with the planned variables as planned, and whether it
// differs from what is there.
func correct(environ []string) (fixed []string, differs bool, err error) {
	var planned launch.EnvOverrides
	have := jobenv.Variables(environ)
	text, err := base64.StdEncoding.DecodeString(have[plannedVar])
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &planned)
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading the planned environment: %w", err)
	}
	for name, want := range planned {
		value, set := have[name]
		differs = differs || set != (want != nil) || want != nil && value != *want
	}
	all := launch.EnvOverrides{plannedVar: nil}
	maps.Copy(all, planned)
	return all.Apply(environ), differs, nil
}

// startPlanned starts this program again if its environment is not the planned one: the
// Go runtime, for one, has read it already.
func startPlanned() error {
	fixed, differs, err := correct(os.Environ())
	if err != nil || !differs {
		return err
	}
	return fmt.Errorf("starting again with the planned environment: %w", syscall.Exec("/proc/self/exe", os.Args, fixed))
}
