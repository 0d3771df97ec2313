package probe

import "github.com/kernbench/kernbench/internal/host/cores"

// allowedCores lists the cores that the control group leaves to this process,
// at most as many as its quota, if it has one.
func allowedCores(quota float64) ([]int, error) {
	granted, err := cores.Granted()
	if err == nil && quota > 0 {
		granted = granted[:max(1, min(len(granted), int(quota)))]
	}
	return granted, err
}

// bindThread binds the calling thread to one core, for good.
func bindThread(core int) error {
	_, err := cores.BindThread(core)
	return err
}
