// Package rankhost turns the processes of another launcher's job into hosts of ranks. Rank 0 can make each of them
// start a process, any number of times and with any environment. A sweep over environment variables needs this in a job
// whose ranks already exist.
//
// Rank 0 calls [Lead], every other rank calls [Follow]. If the leading process is not a rank of the
// job but has started it, for example through mpirun, all ranks follow as its guards, see
// [LeadGuards]. The ranks
// meet at an address given by the job's variables or by the user or, if the job is on one host, at
// a socket that only processes of the same user can use. The caller decides what to start and what
// a failure means. Package launch starts and kills processes. Package connection connects the
// ranks and detects lost ones.
//
//   - A lost rank host (ended, stopped or unreachable) ends the current launch everywhere, because the
//     job is no longer complete.
//   - If rank 0 is lost, the others kill their processes and exit.
package rankhost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// leaveTimeout is how long an interrupted rank waits for rank 0 to end the job.
const leaveTimeout = 3 * time.Second

// silenceLimit is how long a rank may be silent. It is longer than a launcher's limit for the ranks of its host, so
// that the launcher finds a stopped rank before the other ranks give it up.
const silenceLimit = connection.SilenceLimit + time.Second

// LostError means that the host of a rank is lost. The job cannot continue without it.
type LostError struct {
	Rank  int // NoRank for a leader that is no rank of the job
	Host  string
	PID   int
	Cause string
}

// MissingError means that not all ranks have joined in time.
type MissingError struct {
	Joined int // number of ranks that have joined
	Text   string
}

func (e *MissingError) Error() string { return e.Text }

// NoRank is the rank of a leader that is not a rank of the job.
const NoRank = -1

func (e *LostError) Error() string {
	if e.Rank == NoRank {
		return fmt.Sprintf("the supervisor (host %s, pid %d) was lost: %s", e.Host, e.PID, e.Cause)
	}
	return fmt.Sprintf("the process of rank %d (host %s, pid %d) was lost: %s", e.Rank, e.Host, e.PID, e.Cause)
}

// message is one frame in either direction. Exactly one field is set, or none in a heartbeat.
type message struct {
	// From a follower.
	Join        *join           `json:"join,omitempty"`
	Started     *launch.Started `json:"started,omitempty"`
	Output      *output         `json:"output,omitempty"`
	Exited      *launch.Exit    `json:"exited,omitempty"`
	Done        *launch.Outcome `json:"done,omitempty"`
	Failed      string          `json:"failed,omitempty"` // the process could not be started, or was lost
	Interrupted bool            `json:"interrupted,omitempty"`

	// From rank 0.
	Refused string              `json:"refused,omitempty"`
	Launch  *launchOrder        `json:"launch,omitempty"`
	Stop    *launch.StopRequest `json:"stop,omitempty"`
	Bye     bool                `json:"bye,omitempty"`
	GivenUp bool                `json:"given_up,omitempty"`
}

// join asks rank 0 for admission.
type join struct {
	connection.Join
	LeaderAddr string `json:"reached,omitempty"` // address at which it has reached rank 0
	CPUs       []int  `json:"cpus,omitempty"`    // cores it may use
	OwnAddr    string `json:"own,omitempty"`     // its own address on that connection
}

// launchOrder is one rank's part of a launch.
type launchOrder struct {
	Proc launch.Proc `json:"proc"`
	Dir  []byte      `json:"dir"` // of the process; bytes, because it may not be UTF-8
	Spec launch.Spec `json:"spec"`
}

type output struct {
	Err  bool   `json:"err,omitempty"` // stderr, not stdout
	Data []byte `json:"data"`
}

// Config holds the settings with which a rank joins the others.
type Config struct {
	Rank, Size           int
	LocalRank, LocalSize int // on this host
	// Local, if set, is the name of a local socket at which the ranks meet. All of them are on this
	// host.
	Local string
	// Otherwise they meet at Host, the host of rank 0, at the first of Ports that is free there, and
	// prove to each other that they know the secret.
	Host   string
	Ports  []int
	Secret []byte

	Command     string // the command of this rank; must be the same everywhere
	JoinTimeout time.Duration
	// AllowOtherBuild lets rank 0 accept ranks that run another executable.
	AllowOtherBuild bool
	Name            string   // of this host, for messages
	Environ         []string // of this process

	self bool // the rank host runs in the leading process
}

// service describes the connection between ranks. On a single host, the kernel identifies the user of the peer, so the
// name of the socket suffices as the secret.
func (c Config) service() connection.Service {
	s := connection.Service{Banner: "kernbench rank host 1\n", Secret: c.Secret}
	if c.Local != "" {
		s.Secret = []byte(c.Local)
	}
	return s
}

func (c Config) facts() []connection.Fact {
	return []connection.Fact{{Name: "the command", Value: c.Command}, connection.BuildFact(c.AllowOtherBuild)}
}

func (c Config) meetingPoint() string {
	if c.Local != "" {
		return "this host"
	}
	if len(c.Ports) == 1 {
		return net.JoinHostPort(c.Host, strconv.Itoa(c.Ports[0]))
	}
	return fmt.Sprintf("%s, ports %d and following", c.Host, c.Ports[0])
}

// listen opens the address at which rank 0 waits for the others.
func (c Config) listen(ctx context.Context) (net.Listener, error) {
	if c.Local != "" {
		return connection.ListenLocal(c.Local)
	}
	var errs []error
	for _, port := range c.Ports {
		l, err := connection.ListenTCP(ctx, c.Host, port)
		if err == nil {
			return l, nil
		}
		errs = append(errs, err)
		if !errors.Is(err, syscall.EADDRINUSE) {
			break // another port would not help
		}
	}
	return nil, errors.Join(errs...)
}

// findLeader connects to rank 0, and waits until it is there.
func (c Config) findLeader(ctx context.Context) (*connection.Conn, error) {
	network, addresses := "unix", []string{"@" + c.Local}
	if c.Local == "" {
		network = "tcp"
		addresses = lists.Map(c.Ports, func(port int) string { return net.JoinHostPort(c.Host, strconv.Itoa(port)) })
	}
	limited, cancel := context.WithTimeout(ctx, c.JoinTimeout)
	defer cancel()
	conn, err := c.service().DialAny(limited, network, addresses...)
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(err, connection.ErrWrongSecret):
		return nil, fmt.Errorf("refused by rank 0 at %s: %w; every rank needs the same one", c.meetingPoint(), err)
	case ctx.Err() != nil:
		return nil, ErrInterrupted
	}
	if c.Local == "" {
		err = fmt.Errorf("%w; this host has %s", err, connection.DescribeInterfaces())
	}
	return nil, fmt.Errorf("rank %d could not reach rank 0 at %s within %v: %w", c.Rank, c.meetingPoint(), c.JoinTimeout,
		err)
}

// join describes this rank to rank 0, which it has reached at leaderAddr.
func (c Config) join(reached, own string) *join {
	return &join{connection.NewJoin(c.Rank, c.Size, c.Name, c.facts()), reached, cores.Allowed(), own}
}
