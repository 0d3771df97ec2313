package shm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/process/connection"
)

// fileCounts announces how many files come with a message: one number for the files of a single rank, or a number for
// each rank.
type fileCounts struct{ Files []int }

// livenessInterval is how often a rank that exchanges files checks whether the others are alive.
const livenessInterval = 5 * time.Millisecond

// ExchangeFiles returns the open files of all ranks, passed through rank 0 over a socket. The caller
// owns them: it must close the files of the other ranks. If one rank fails, the group fails for all.
func (a *CallChecker) ExchangeFiles(what string, mine ...*os.File) (all [][]*os.File, err error) {
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
	if id.Rank == 0 {
		all, err = id.collectFiles(ctx, mine)
	} else {
		all, err = id.sendFiles(ctx, mine)
	}
	close(done)
	<-watcherDone
	if err == nil && !a.Failed() {
		return all, nil
	}
	closeFiles(all, id.Rank)
	a.Refuse(fmt.Sprintf("rank %d in %s: passing files: %v", id.Rank, what, err)) // no effect if the group has failed
	return nil, a.Failure()
}

func closeFiles(all [][]*os.File, except int) {
	for rank, files := range all {
		for _, f := range files {
			if rank != except {
				f.Close()
			}
		}
	}
}

// collectFiles is rank 0's part of ExchangeFiles: it receives the files of all ranks and sends them to every rank.
func (id Identity) collectFiles(ctx context.Context, mine []*os.File) (all [][]*os.File, err error) {
	l, err := connection.ListenLocal(id.address())
	if err != nil {
		return nil, err
	}
	g := &connection.Group{Noun: "rank", Size: id.Size}
	arrivals := connection.Arrivals[fileCounts](l, id.service())
	defer func() {
		l.Close()
		connection.RefuseLatecomers(arrivals, g)
	}()
	g.Admit(connection.SelfPeer, id.join())
	ranks, err := connection.Collect(ctx, arrivals, g)
	if err != nil {
		return nil, err
	}
	all, flat, numbers := [][]*os.File{mine}, mine, fileCounts{[]int{len(mine)}}
	for _, r := range ranks[1:] {
		n := r.Payload.Files[0]
		theirs, ferr := r.Files(n)
		err = errors.Join(err, ferr)
		all, flat, numbers.Files = append(all, theirs), slices.Concat(flat, theirs), append(numbers.Files, n)
	}
	for _, r := range ranks[1:] {
		if err != nil {
			r.Refuse(err.Error())
		} else {
			err = connection.Welcome(r, numbers, flat...)
		}
	}
	return all, err
}

// sendFiles is the other ranks' part of ExchangeFiles. Rank 0 sends back copies of this rank's own files too; sendFiles
// closes these and returns the originals.
func (id Identity) sendFiles(ctx context.Context, mine []*os.File) (all [][]*os.File, err error) {
	c, err := id.service().DialAny(ctx, "unix", "@"+id.address())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	numbers, err := connection.JoinOnce[fileCounts](ctx, c, id.join(), fileCounts{[]int{len(mine)}}, mine...)
	if err != nil {
		return nil, err
	}
	for _, n := range numbers.Files {
		files, err := c.Files(n)
		if err != nil {
			return all, err
		}
		all = append(all, files)
	}
	for i, f := range all[id.Rank] {
		f.Close()
		all[id.Rank][i] = mine[i]
	}
	return all, nil
}
