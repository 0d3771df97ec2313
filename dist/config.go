package dist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Config says which group to join and as whom. All but Rank, Host, Interface and
// Exchange must be equal on all ranks.
type Config struct {
	Backend string
	Rank    int
	Size    int
	ID      string        // names the group among those alive
	Secret  string        // keeps strangers with the same ID out
	Timeout time.Duration // how long to wait for another rank; 0: DefaultTimeout
	Tuning  *Tuning       // nil: the built-in table

	// Exchange is how ranks on several hosts find each other: it gives every rank
	// what all ranks gave, by rank, over a channel that strangers cannot join. It
	// is used while joining only. nil: all ranks are on one host.
	Exchange func(ctx context.Context, mine []byte) ([][]byte, error)
	// Host is the host this rank counts as being on. Ranks of one host share
	// memory. "": $KERNBENCH_HOST, or else the machine and its network namespace.
	Host string
	// Interface is the network interface to other hosts. "": $GLOO_SOCKET_IFNAME,
	// which launchers set, or else whichever reaches them.
	Interface string
}

// Init joins a group and returns once all its ranks have. Ending ctx ends the
// waiting, not the group.
func Init(ctx context.Context, c Config) (*Group, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("joining group %q: %w", c.ID, err)
	}
	b, err := backendNamed(c.Backend)
	if err != nil {
		return nil, fmt.Errorf("joining group %q: %w", c.ID, err)
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Tuning == nil {
		c.Tuning = DefaultTuning()
	}
	c.Host = cmp.Or(c.Host, os.Getenv(hostVar))
	c.Interface = cmp.Or(c.Interface, os.Getenv(interfaceVar))
	e, err := b.Join(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("joining group %q as rank %d of %d: %w", c.ID, c.Rank, c.Size, err)
	}
	return newGroup(e, c.Backend, c.Tuning), nil
}

// check names all faults at once.
func (c Config) check() error {
	var faults []error
	if c.Size < 1 {
		faults = append(faults, fmt.Errorf("size is %d, want at least 1", c.Size))
	} else if c.Rank < 0 || c.Rank >= c.Size {
		faults = append(faults, fmt.Errorf("rank is %d, want 0 to %d", c.Rank, c.Size-1))
	}
	if c.ID == "" {
		faults = append(faults, errors.New("no ID: ranks find each other by it"))
	}
	if c.Timeout < 0 {
		faults = append(faults, fmt.Errorf("timeout is %v, want 0 (the default) or more", c.Timeout))
	}
	return errors.Join(faults...)
}
