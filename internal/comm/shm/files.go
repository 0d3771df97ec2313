package shm

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// livenessInterval is how often a rank that exchanges files checks whether the others are alive.
const livenessInterval = 5 * time.Millisecond

// ExchangeFiles returns the open files of all ranks, passed through rank 0 over a socket. The caller
// owns them: it must close the files of the other ranks. If one rank fails, the group fails for all, and the files are
// closed.
func (a *CallChecker) ExchangeFiles(what string, mine ...*os.File) (files [][]*os.File, err error) {
	id := a.identity
	a.fileExchanges++
	id.ID = fmt.Sprintf("%s/files/%d", id.ID, a.fileExchanges)
	ctx, cancel := context.WithTimeoutCause(context.Background(), id.Timeout, fmt.Errorf("%v have passed", id.Timeout))
	defer cancel()
	done, watcherDone := make(chan struct{}), make(chan struct{})
	go func() { // check the claims of all ranks: a broken socket to rank 0 does not show which other rank has died
		defer close(watcherDone)
		for !a.CheckFailed(what) {
			select {
			case <-time.After(livenessInterval):
			case <-done:
				return
			}
		}
		cancel()
	}()
	var l net.Listener
	if id.Rank == 0 {
		if l, err = connection.ListenLocal(id.address()); err == nil {
			defer l.Close()
		}
	}
	var all []parcel[struct{}]
	if err == nil {
		all, err = exchange(ctx, id, l, struct{}{}, func() ([]*os.File, error) { return mine, nil })
	}
	close(done)
	<-watcherDone
	if err == nil && !a.Failed() {
		return lists.Map(all, func(p parcel[struct{}]) []*os.File { return p.files }), nil
	}
	closeParcels(all)
	a.Refuse(fmt.Sprintf("rank %d in %s: passing files: %v", id.Rank, what, err)) // no effect if the group has failed
	return nil, a.Failure()
}
