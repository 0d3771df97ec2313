package nccl

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kernbench/kernbench/internal/comm/nccl"
	"github.com/kernbench/kernbench/internal/comm/shm"
)

const (
	watchEvery  = 256    // looks between two at the communicator and the group
	politeLooks = 20_000 // looks before others are let onto the core
	politePause = 20 * time.Microsecond
)

// settle returns when the communicator has taken what it was told.
func (e *engine) settle(doing string) error {
	var w watch
	for {
		switch err := e.comm.State(); {
		case err == nil:
			return nil
		case err != nccl.ErrInProgress:
			return e.broken(doing, err)
		}
		if err := w.look(e, doing); err != nil {
			return err
		}
	}
}

// wait returns when the stream's work is done.
func (e *engine) wait(doing string) error {
	var w watch
	for {
		done, err := e.stream.Done()
		if err != nil {
			return e.broken(doing, err)
		}
		if done {
			return nil
		}
		if err := w.look(e, doing); err != nil {
			return err
		}
	}
}

// watch is one wait, in which the rest is looked at too, now and then.
type watch struct {
	looks int
	began time.Time
}

// look comes between two looks at what is waited for. It ends the communicator when
// waiting is of no use any more, and says why.
func (w *watch) look(e *engine, doing string) error {
	w.looks++
	if e.agreement.Meeting.Crowded { // NCCL's own threads, and other ranks, need this core
		shm.Yield()
	}
	if w.looks%watchEvery != 0 {
		return nil
	}
	if w.looks > politeLooks {
		time.Sleep(politePause)
	}
	if w.began.IsZero() {
		w.began = time.Now()
	}
	if e.agreement.CheckFailed(doing) {
		e.abort()
		return e.agreement.FailureIn(doing)
	}
	if err := e.comm.State(); err != nil && err != nccl.ErrInProgress {
		return e.broken(doing, err)
	}
	if time.Since(w.began) > e.timeout {
		return e.late(doing)
	}
	return nil
}

// late ends the group because a call does not end. The culprit is a rank that agreed on
// the call and has not told NCCL.
func (e *engine) late(doing string) error {
	f := shm.Failure{Kind: shm.Refusal,
		Text: fmt.Sprintf("rank %d waited %v for NCCL in %s, which all ranks have started", e.rank, e.timeout, doing)}
	epoch := e.agreement.Next() - 1
	for rank := range e.size {
		if atomic.LoadUint64(e.agreement.Word(rank, epoch, 0)) == uint64(epoch)<<1 {
			f = shm.Failure{Kind: shm.PeerGone, Rank: rank, PID: e.agreement.Meeting.PIDs[rank],
				Text: fmt.Sprintf("rank %d waited %v in %s for rank %d, which has not started it", e.rank, e.timeout, doing, rank)}
			break
		}
	}
	failed := e.agreement.Fail(f)
	e.abort()
	return failed
}

// broken ends the group because NCCL or the driver has failed. Where a rank has died,
// that one is named instead.
func (e *engine) broken(doing string, err error) error {
	defer e.abort()
	if e.agreement.CausedByPeer(doing) {
		return e.agreement.FailureIn(doing)
	}
	return e.agreement.Fail(shm.Failure{Kind: shm.Refusal,
		Text: fmt.Sprintf("rank %d in %s: %v: %v", e.rank, doing, e.lib, err)})
}
