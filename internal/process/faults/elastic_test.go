package faults

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/proctest"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// startElastic starts a job of one or two nodes of one rank each. The first node hosts the rendezvous.
func startElastic(s *scene) {
	port := must.Get(connection.PortRange{}.FreePort("127.0.0.1"))(s)
	s.endpoint = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s.startNode()
	for limit := time.Now().Add(hangGuard); time.Now().Before(limit) && !s.over(); time.Sleep(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", s.endpoint); err == nil {
			c.Close()
			break
		}
	}
	if s.fault.name != "join node" {
		s.startNode()
	}
}

func (s *scene) startNode() {
	s.Helper()
	flags := strings.Fields("launch --nnodes 1:2 --max-restarts 1 --last-call 1s --grace 2s --rdzv-endpoint " + s.endpoint)
	s.command(nil, slices.Concat(flags, []string{"--", proctest.Self(s.T)}, s.runArgs())...)
}

// joinNode adds the second node.
func joinNode(s *scene) bool {
	if s.over() {
		return false
	}
	s.startNode()
	return true
}

// loseNode ends the second node with a signal.
func loseNode(sig syscall.Signal) func(*scene) bool {
	return func(s *scene) bool {
		s.victim.PID = s.commands[1].Process.Pid
		return !s.over() && syscall.Kill(s.victim.PID, sig) == nil
	}
}

// restarted expects the first node to restart for the reason, and to complete the run with the ranks that
// are left. The run may also have ended before.
func restarted(why string) func(*scene, []journal.Row) bool {
	return func(s *scene, _ []journal.Row) bool {
		said := s.said[0].String()
		return s.finished() && s.commands[0].ProcessState.Success() &&
			(strings.Contains(said, why) || !strings.Contains(said, ": restart "))
	}
}
