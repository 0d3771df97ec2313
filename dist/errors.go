package dist

import (
	"fmt"
	"time"
)

// MisuseError says that ranks did not call the same thing, and names both sides.
type MisuseError struct{ Text string }

func (e *MisuseError) Error() string { return e.Text }

// PeerError says that a rank is dead, has left or does not come.
type PeerError struct {
	Rank int
	PID  int // 0: not known
	Dead bool
	Text string
}

func (e *PeerError) Error() string { return e.Text }

// ErrClosed is returned by calls on a group that this rank has closed.
var ErrClosed = fmt.Errorf("dist: the group is closed")

// DefaultTimeout is how long a rank waits for another unless Config says.
const DefaultTimeout = time.Minute
