package mpi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
)

// meetAfar is the first meeting of ranks on several hosts: each tells all others
// that it has come, and waits until all have.
func (p *process) meetAfar(ctx context.Context, m meeting) error {
	tag := tagOf(m.id)
	box := newMailbox(p.lib, p.lobby, tag)
	hello := fmt.Appendf(nil, "%s %x", m.id, sha256.Sum256(fmt.Appendf(nil, "%s/%s", m.id, m.secret)))
	for r := range m.hosts {
		if r == m.rank {
			continue
		}
		if err := box.send(r, tag, hello); err != nil {
			return err
		}
	}
	defer box.flush(flushTime)
	came := make([]bool, len(m.hosts))
	came[m.rank] = true
	var w pace
	for left := len(m.hosts) - 1; left > 0; w.pause() {
		from, _, said, ok, err := box.receive()
		switch {
		case err != nil:
			return err
		case ok && string(said) != string(hello):
			return fmt.Errorf("rank %d joins another group, or with another secret, at the same time", from)
		case ok && !came[from]:
			came[from] = true
			left--
		case ctx.Err() != nil:
			return fmt.Errorf("%s did not come within %v: %w", absent(came), m.timeout.Round(time.Millisecond), ctx.Err())
		}
	}
	return nil
}

func absent(came []bool) string {
	var names []string
	for r, here := range came {
		if !here {
			names = append(names, fmt.Sprint(r))
		}
	}
	if len(names) == 1 {
		return "rank " + names[0]
	}
	return "ranks " + strings.Join(names, ", ")
}
