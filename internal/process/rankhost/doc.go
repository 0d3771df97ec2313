// Package rankhost turns the processes of a job that another launcher has started
// into hosts of ranks: rank 0 has each of them start a process, as often as it likes,
// with the environment it likes. That is how a sweep over environment variables works
// within a job whose ranks exist already.
//
// Rank 0 calls [Lead], every other rank [Follow]. Where the process that leads is no rank of the job but has had it
// started, by mpirun say, all ranks follow: they are its [Guards]. They find each other at an
// address that the job's variables or the user gives, or, when the job is on one
// host, at a socket that only processes of the same user can use. What is started
// and what becomes of a failure is the caller's matter; how processes are started
// and killed is package launch's; how ranks meet, and notice that one is lost, is
// package connection's.
//
//   - A rank host that is lost, because its process ended, stands still or cannot be
//     reached, ends what runs everywhere: the job is not whole any more.
//   - Rank 0 is lost: the others kill what they have started, and end.
package rankhost

import (
	"fmt"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// leaveLimit is how long a rank that was told to end waits for rank 0 to end the job in
// order.
const leaveLimit = 3 * time.Second

// LostError says that a rank's host is gone, and with it the job.
type LostError struct {
	Rank  int
	Host  string
	PID   int
	Cause string
}

func (e *LostError) Error() string {
	return fmt.Sprintf("the process of rank %d (host %s, pid %d) was lost: %s", e.Rank, e.Host, e.PID, e.Cause)
}

// Proc is the process to start at a rank's host.
type Proc struct {
	Argv launch.ByteStrings
	Dir  []byte // empty is the rank host's own; bytes, for what is not UTF-8
	// Env is applied to the rank host's own environment, less the launcher's variables
	// (see [launch.Environ]); nil removes.
	Env  launch.EnvOverrides
	Vars launch.RankVars // the local ones are the rank host's own
	// Native leaves the launcher's variables in beside them, and the descriptors they name, for
	// a library that joins the launcher's job by them. It can do so once.
	Native bool
	Files  []string // opened by the rank host, become descriptors 3, 4, ...; for jobs on one host
	Stdout string   `json:"-"` // log files at rank 0; empty drops the stream
	Stderr string   `json:"-"`
}

// Spec describes one launch: a process for every rank.
type Spec struct {
	Procs          []Proc `json:"-"` // by rank
	ReportEnv      []string
	StopOnFailure  bool
	Grace          time.Duration    // see [launch.Spec]
	ForwardSignals []syscall.Signal // that a rank host gets, to its own process
}

// message is one frame, in either direction: exactly one field is set, or none for a
// heart-beat.
type message struct {
	// From a follower.
	Join        *join           `json:"join,omitempty"`
	Started     *launch.Started `json:"started,omitempty"`
	Output      *output         `json:"output,omitempty"`
	Exited      *launch.Exit    `json:"exited,omitempty"`
	Done        *launch.Outcome `json:"done,omitempty"`
	Failed      string          `json:"failed,omitempty"` // the launch did not come about, or was lost
	Interrupted bool            `json:"interrupted,omitempty"`

	// From rank 0.
	Refused string              `json:"refused,omitempty"`
	Launch  *start              `json:"launch,omitempty"`
	Stop    *launch.StopRequest `json:"stop,omitempty"`
	Bye     bool                `json:"bye,omitempty"`
	GivenUp bool                `json:"given_up,omitempty"`
}

// join asks rank 0 to be admitted.
type join struct {
	connection.Join
	Reached string `json:"reached,omitempty"` // the address at which it has reached rank 0
	CPUs    []int  `json:"cpus,omitempty"`    // that it may use
	Own     string `json:"own,omitempty"`     // its own address on that way
}

// start is one Proc of a Spec.
type start struct {
	ID int `json:"id"`
	Proc
	Spec
}

type output struct {
	Err  bool   `json:"err,omitempty"` // of stderr
	Data []byte `json:"data"`
}
