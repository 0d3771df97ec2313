package faults

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/host/proc"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The possible victims among the processes of a run.

func workers(s *scene) []process {
	return pick(s, func(p process) bool {
		return p.Env["KERNBENCH_WORKER"] != "" && p.rank() >= 0 && p.Cmdline == p.program()
	})
}

// program returns the command line of a worker: the program alone.
func (p process) program() string {
	if first, rest, _ := strings.Cut(p.Cmdline, " "); rest == "" && !strings.HasPrefix(first, "mpirun") {
		return p.Cmdline
	}
	return ""
}

// agents returns the launch agents. A rank that has not executed its program yet has the command line of its agent.
func agents(s *scene) []process {
	found := pick(s, func(p process) bool { return strings.HasPrefix(p.Cmdline, "kernbench-agent") })
	return slices.DeleteFunc(slices.Clone(found), func(p process) bool { return startedBy(p, found) })
}

// launcherPrograms returns the launchers (mpirun, srun) that an agent has started.
func launcherPrograms(s *scene) []process {
	all := agents(s)
	return pick(s, func(p process) bool {
		return strings.Contains(strings.SplitN(p.Cmdline, " ", 2)[0], "run") && startedBy(p, all)
	})
}

// startedBy reports whether one of the processes is the parent of p.
func startedBy(p process, parents []process) bool {
	now, running := proc.Read(os.DirFS("/"), p.PID)
	return running && slices.ContainsFunc(parents, func(parent process) bool { return parent.PID == now.Parent })
}

func supervisors(s *scene) []process {
	return pick(s, func(p process) bool { return p.PID == s.commands[0].Process.Pid })
}

// rankHosts returns the ranks started by `launch`. Each of them is a kernbench process.
func rankHosts(s *scene) []process {
	return pick(s, func(p process) bool {
		return strings.Contains(p.Cmdline, " run --bench") && !strings.Contains(p.Cmdline, " launch ") && p.rank() >= 0
	})
}

func followers(s *scene) []process {
	return slices.DeleteFunc(rankHosts(s), func(p process) bool { return p.rank() == 0 })
}

func launchers(s *scene) []process {
	return pick(s, func(p process) bool {
		return slices.ContainsFunc(s.pids(), func(pid int) bool { return p.PID == pid })
	})
}

func (s *scene) pids() (pids []int) {
	for _, c := range s.commands {
		pids = append(pids, c.Process.Pid)
	}
	return pids
}

func pick(s *scene, is func(process) bool) []process {
	var found []process
	for _, p := range s.mark.Processes() {
		if is(process{p}) {
			found = append(found, process{p})
		}
	}
	return found
}

// killOf sends a signal to one of the victims.
func killOf(victims func(*scene) []process, sig syscall.Signal) func(*scene) bool {
	return func(s *scene) bool {
		found := victims(s)
		if len(found) == 0 {
			return false // between two launches, or over
		}
		victim := found[s.pick%len(found)]
		if syscall.Kill(victim.PID, sig) != nil {
			return false
		}
		s.victim = victim
		return true
	}
}

// inTurn injects one fault and, if that hit, another right after it.
func inTurn(first, second func(*scene) bool) func(*scene) bool {
	return func(s *scene) bool {
		if !first(s) {
			return false
		}
		second(s) // may have ended meanwhile
		return true
	}
}

// killVictim kills the process that was hit before.
func killVictim(s *scene) bool { return syscall.Kill(s.victim.PID, syscall.SIGKILL) == nil }

// stopLauncher stops the launcher of the node that does not host the rendezvous.
func stopLauncher(s *scene) bool {
	found := slices.DeleteFunc(launchers(s), func(p process) bool { return p.PID != s.commands[1].Process.Pid })
	if len(found) == 0 || syscall.Kill(found[0].PID, syscall.SIGSTOP) != nil {
		return false
	}
	s.victim = found[0]
	return true
}

// freezeNode stops every process of the node that does not host the rendezvous.
func freezeNode(s *scene) bool {
	if s.over() {
		return false
	}
	s.signalNode(syscall.SIGSTOP)
	s.victim.PID = s.commands[1].Process.Pid
	return true
}

// signalNode sends a signal to every process of the second node, and repeats that until no new process
// appears.
func (s *scene) signalNode(sig syscall.Signal) {
	for sent := map[int]bool{}; ; {
		before := len(sent)
		for _, p := range s.mark.Processes() {
			if s.network.Hosts[1].Has(p.PID) && !sent[p.PID] {
				syscall.Kill(p.PID, sig)
				sent[p.PID] = true
			}
		}
		if len(sent) == before {
			return
		}
	}
}

// cut pulls the cable of the host that does not host the rendezvous.
func cut(s *scene) bool {
	if s.over() {
		return false
	}
	s.network.Hosts[1].Cut()
	s.victim.PID = s.commands[1].Process.Pid
	return true
}

// resetWorker breaks a connection of a worker; resetLauncher breaks a node's connection to the
// rendezvous.
func resetWorker(s *scene) bool { return s.reset(workers(s)) }

func resetLauncher(s *scene) bool {
	return s.reset(slices.DeleteFunc(launchers(s), func(p process) bool { return p.PID != s.commands[1].Process.Pid }))
}

func (s *scene) reset(found []process) bool {
	if len(found) == 0 {
		return false
	}
	victim := found[s.pick%len(found)]
	hit, err := reset(victim.PID, s.pick/7)
	if err != nil {
		s.Error(err)
	}
	s.victim = victim
	return hit
}

// The checks that the culprit is named.

// rankNamed expects at most one failed row, which names the rank and contains one of the words. A fault
// after the last row leaves no failed row.
func rankNamed(words ...string) func(*scene, []journal.Row) bool {
	return func(s *scene, rows []journal.Row) bool {
		switch len(rows) {
		case 0:
			return true
		case 1:
			r := rows[0]
			return r.Rank != nil && *r.Rank == s.victim.rank() && slices.ContainsFunc(words, func(w string) bool {
				return strings.Contains(string(r.Reason), w)
			})
		}
		return false
	}
}

func reasonNamed(words string) func(*scene, []journal.Row) bool {
	return func(_ *scene, rows []journal.Row) bool {
		return len(rows) == 0 || len(rows) == 1 && strings.Contains(string(rows[0].Reason), words)
	}
}

// alwaysNamed accepts everything: there is no one to name the culprit if the supervisor itself was killed.
func alwaysNamed(*scene, []journal.Row) bool { return true }

// unharmed expects no failed row, because strangers do no harm.
func unharmed(_ *scene, rows []journal.Row) bool { return len(rows) == 0 }

// rankHostNamed expects the row or the launcher's message to name a rank of the job. A rank host that has
// done its work may end unnoticed.
func rankHostNamed(s *scene, rows []journal.Row) bool {
	// srun may end the other ranks before they can say so, but names the task itself.
	names := []string{"rank %d (node ", "the process of rank %d (host ", "lost rank %d: ", ": task %d: Killed"}
	for _, name := range names {
		if strings.Contains(s.output(), fmt.Sprintf(name, s.victim.rank())) {
			return true
		}
	}
	return s.finished()
}

// launcherNamed expects the other node to name the lost one. In a job of one node no one is left to do
// so.
func launcherNamed(s *scene, rows []journal.Row) bool {
	if s.shape.name != "hosts" || s.finished() {
		return true
	}
	i := slices.Index(s.pids(), s.victim.PID)
	other := s.said[1-i].String()
	return strings.Contains(other, fmt.Sprintf("node %d (host kb%d", i, i)) ||
		strings.Contains(other, fmt.Sprintf("node %d (host kb%d", 1-i, 1-i)) && strings.Contains(other, "lost the rendezvous")
}

// finished reports whether the run had already ended when the fault hit it.
func (s *scene) finished() bool {
	_, r, err := journal.LoadRun(s.dir)
	return err == nil && r.End != nil && r.End.Outcome == "complete"
}

func stderrNamed(words string) func(*scene, []journal.Row) bool {
	return func(s *scene, _ []journal.Row) bool {
		return strings.Contains(s.output(), words) || s.finished() && s.small
	}
}

// interrupted expects the run to say that it was interrupted, unless it had already ended.
func interrupted(s *scene, _ []journal.Row) bool {
	return strings.Contains(s.output(), "interrupted") || s.finished()
}

// leaders returns the process of rank 0 in a joined job.
func leaders(s *scene) []process {
	return slices.DeleteFunc(rankHosts(s), func(p process) bool { return p.rank() != 0 })
}

// pauseOf stops one of the victims for a time between min and max seconds.
func pauseOf(victims func(*scene) []process, min, max int) func(*scene) bool {
	return func(s *scene) bool {
		if !killOf(victims, syscall.SIGSTOP)(s) {
			return false
		}
		time.Sleep(time.Duration(min)*time.Second + time.Duration(s.pick%((max-min)*1000))*time.Millisecond)
		syscall.Kill(s.victim.PID, syscall.SIGCONT)
		return true
	}
}

// losePackets lets the cable of the second host lose 20 to 90 % of its packets.
func losePackets(s *scene) bool {
	s.relay.Lose(0.2 + float64(s.pick%8)/10)
	return !s.over()
}

// delayPackets lets every packet of the second host take 50 to 300 ms.
func delayPackets(s *scene) bool {
	s.relay.Delay(time.Duration(50+s.pick%250) * time.Millisecond)
	return !s.over()
}

// stoppedLeaderNamed expects the launcher or the other ranks to name rank 0, and a failed row to name it too.
func stoppedLeaderNamed(s *scene, rows []journal.Row) bool {
	for _, r := range rows {
		if r.Rank == nil || *r.Rank != 0 || !strings.Contains(string(r.Reason), "it was stopped for") {
			return false
		}
	}
	return rankHostNamed(s, rows)
}

// networkNamed expects that nothing but the network is blamed. A job may also survive.
func networkNamed(s *scene, rows []journal.Row) bool {
	blamed := strings.Join(reasons(rows), "\n")
	for line := range strings.Lines(s.output()) {
		if strings.Contains(line, "lost") { // progress lines may also mention a disturbance
			blamed += line
		}
	}
	for _, wrong := range []string{"stopped by a signal", "the process is stopped", "was stopped for", "for a processor"} {
		if strings.Contains(blamed, wrong) {
			return false
		}
	}
	return s.finished() || strings.Contains(blamed, "the network") || strings.Contains(blamed, "connection")
}
