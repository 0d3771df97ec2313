package mpi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/process/culprit"
)

// meetRemote is the first meeting of ranks on several hosts: each tells all others
// that it is there, and waits until all are.
func (p *process) meetRemote(ctx context.Context, m meeting) error {
	tag := tagOf(m.id)
	box := newMailbox(p.lib, p.bootstrap, tag)
	proof := fmt.Sprintf("%x %s", sha256.Sum256(fmt.Appendf(nil, "%s/%s", m.id, m.secret)), m.id)
	tell := func(what string) (err error) {
		for r := range m.hosts {
			if r != m.rank && err == nil {
				err = box.send(r, tag, []byte(what+proof))
			}
		}
		return err
	}
	if err := tell(hello); err != nil {
		return err
	}
	came := make([]bool, len(m.hosts))
	came[m.rank] = true
	err := m.receive(ctx, box, proof, came)
	if err != nil {
		_ = tell(goodbye) // no rank may count on this one when it is asked for again
	}
	box.flush(flushTime)
	return err
}

// What a rank says to the others: it is there, or does not wait any longer.
const (
	hello   = "+"
	goodbye = "-"
)

// flushTime is how long what was said may take to go.
const flushTime = time.Second

func (m meeting) receive(ctx context.Context, box *mailbox, proof string, came []bool) error {
	for w := (backoff{}); slices.Contains(came, false); w.pause() {
		from, body, ok, err := box.receive()
		said := string(body)
		switch {
		case err != nil:
			return err
		case ok && said[1:] != proof:
			return fmt.Errorf("rank %d joins another group at the same time, or has another secret", from)
		case ok:
			came[from] = said[:1] == hello
		case ctx.Err() != nil:
			return fmt.Errorf("%s did not come within %v: %w", absent(came), m.timeout.Round(time.Millisecond), ctx.Err())
		}
	}
	return nil
}

func absent(came []bool) string {
	var ranks []int
	for r, here := range came {
		if !here {
			ranks = append(ranks, r)
		}
	}
	return culprit.FormatRanks(ranks)
}
