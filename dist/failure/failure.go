// Package failure gives what ended a group the types of package dist: for backends whose
// ranks agree on their calls through shared memory.
package failure

import (
	"errors"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
)

// Outward is the error as package dist promises it. One that ended no group stays as it is.
func Outward(err error) error {
	if err == nil {
		return nil // before f, which is allocated
	}
	var f *shm.Failure
	switch {
	case !errors.As(err, &f):
		return err
	case f.Kind != shm.PeerGone:
		return &dist.MisuseError{Text: f.Text}
	}
	return &dist.PeerError{Rank: f.Rank, PID: f.PID, Dead: f.Dead, Text: f.Text}
}
