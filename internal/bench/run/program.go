package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/sweep"
	"github.com/kernbench/kernbench/internal/process/culprit"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/process/rankhost"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// program runs one task of a sweep over another program: one process
// per rank, or one that starts its own. Its output is read when all have ended.
func (s *runSlot) program(ctx context.Context, b *backlog) error {
	next := b.take(1)
	if len(next) == 0 {
		return nil
	}
	a := next[0]
	if err := s.recordStart(a); err != nil {
		return err
	}
	limit := s.timeout(b.group)
	if s.joined(b.group) {
		limit = 0 // ranks that another launcher started may not be able to start it again
	}
	rows, err := s.measure(limit, func() ([]journal.Row, error) {
		rows, err := s.oneProgram(ctx, b.group, a.task)
		return rows, cmp.Or(err, ctx.Err())
	}, func(int, []journal.Row) error { return nil })
	if rows == nil {
		return err
	}
	again, settleErr := s.settle(a, rows...)
	b.putBack(again)
	return cmp.Or(settleErr, err)
}

// oneProgram launches, waits and parses. A fault of the program is a row; the
// error is the harness's own.
func (s *runSlot) oneProgram(ctx context.Context, g *plan.Group, t plan.Task) ([]journal.Row, error) {
	row := s.row(t)
	failed := func(status journal.Status, phase, reason string) ([]journal.Row, error) {
		row.Status, row.Phase, row.Reason = status, phase, reason
		return []journal.Row{row}, nil
	}
	logs, path, err := s.logDir()
	if err != nil {
		return nil, err
	}
	row.Launch = logs
	cmd := g.Part.Command
	argv, err := sweep.Substitute(cmd.Argv, t.Point, row.NumRanks)
	if err != nil {
		return failed(journal.Failed, "start", err.Error())
	}
	l, err := s.start(ctx, g, processSpec{logs: path, argv: argv, dir: cmd.Dir, watch: envNames(t.Env), stopOnFailure: true,
		passOn: launch.UserSignals})
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return failed(journal.Failed, "start", err.Error())
	}
	limit := s.timeout(g)
	seen := s.watchProgram(l, t, limit)
	out, err := l.Wait()
	if err != nil {
		reason := s.lostProgram(&row, g, err, path)
		return failed(journal.Failed, "run", reason)
	}
	if out.Leftovers > 0 {
		row.Warnings = append(row.Warnings, fmt.Sprintf("%d processes outlived the program and were killed",
			out.Leftovers))
	}
	ranks := ranksOf(out, seen, path)
	switch {
	case seen.mismatch != "":
		return failed(journal.Failed, "start", seen.mismatch)
	case seen.hung:
		blame(&row, culprit.Hung(ranks, limit), ranks, path)
		return failed(journal.Timeout, "run", row.Reason)
	case out.Failed() != nil && s.interruptFollows(ctx, g, *out.Failed()):
		return nil, ctx.Err()
	case out.Failed() != nil:
		blame(&row, culprit.Failed(ranks), ranks, path)
		return failed(journal.Failed, "run", row.Reason)
	case out.Reason != "":
		return failed(journal.Failed, "run", "the program was ended: "+out.Reason)
	}
	return s.parse(g, row, out, path)
}

// lostProgram says why the end of a program is not known: its agent or a rank host was lost.
func (s *runSlot) lostProgram(row *journal.Row, g *plan.Group, err error, logs string) (reason string) {
	var lost *rankhost.LostError
	if !errors.As(err, &lost) {
		return err.Error()
	}
	rank, reason := lost.Rank, err.Error()
	if via := s.opts.Launcher; via != nil {
		var ranks []culprit.Rank
		for r := range g.Ranks {
			ranks = append(ranks, culprit.Rank{Rank: r, Said: lastWords(logs, r)})
		}
		// Which of the guards is missed first is chance when the launcher has killed them all.
		if teller := culprit.Teller(ranks); teller >= 0 && teller != rank {
			rank, reason = teller, via.Name()+" ended all ranks"
		}
	}
	row.Rank, row.Output = &rank, lastOutput(logs, rank)
	if said := lastWords(logs, rank); said != "" {
		reason += "; its program said: " + said
	}
	return reason
}

// sighting is what was seen of a program while it ran.
type sighting struct {
	mismatch string      // its environment was not the planned one
	hung     bool        // it took too long
	order    map[int]int // place of each rank among the ends, from 1
}

// watchProgram watches a launch until it ends by itself, or has to be stopped: for
// an environment that is not the planned one, or because it takes too long.
func (r *runner) watchProgram(l launched, t plan.Task, limit time.Duration) sighting {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	seen := sighting{order: map[int]int{}}
	events := l.Events()
	for {
		select {
		case e, open := <-events:
			if !open {
				return seen
			}
			switch e := e.(type) {
			case launch.Started:
				// Of a program that has ended already, the environment is not known.
				if e.Env != nil && seen.mismatch == "" {
					if err := envSeen(t.Env, e.Env); err != nil {
						seen.mismatch = fmt.Sprintf("rank %d: %v", e.Rank, err)
						l.Stop(seen.mismatch, false)
					}
				}
			case launch.Exit:
				seen.order[e.Rank] = len(seen.order) + 1
			}
		case <-deadline.C:
			seen.hung = true
			l.StopHung(fmt.Sprintf("not finished within %v", limit))
		}
	}
}

// ranksOf is what is known of each rank at the end.
func ranksOf(out launch.Outcome, seen sighting, logs string) []culprit.Rank {
	ranks := make([]culprit.Rank, len(out.Exits))
	for i, x := range out.Exits {
		ranks[i] = culprit.Rank{
			Rank: x.Rank, Order: seen.order[x.Rank], How: x.How(), Failed: x.Failed(), Signal: x.Signal, Told: x.Stopped,
			Doing: x.Doing, Said: lastWords(logs, x.Rank),
		}
	}
	return ranks
}

// blame fills in who is to blame, and how all ranks ended.
func blame(row *journal.Row, v culprit.Verdict, ranks []culprit.Rank, logs string) {
	row.Reason = v.Reason
	if v.Rank >= 0 {
		row.Rank, row.Output = &v.Rank, lastOutput(logs, v.Rank)
	}
	if len(ranks) == 1 { // the row says it all
		return
	}
	for _, r := range ranks {
		end := journal.RankEnd{Rank: r.Rank, End: r.How, Said: r.Said}
		if r.Doing != nil {
			end.Doing = fmt.Sprintf("%v, %.2f s of CPU time", r.Doing, r.Doing.CPU.Seconds())
		}
		row.Ranks = append(row.Ranks, end)
	}
}

// parse turns the output of all ranks into rows.
func (r *runner) parse(g *plan.Group, base journal.Row, out launch.Outcome, logs string) ([]journal.Row, error) {
	outputs := make([]bench.RankOutput, len(out.Exits))
	for i, x := range out.Exits {
		o := bench.RankOutput{Rank: x.Rank, Wall: x.Wall}
		for ext, into := range map[string]*[]byte{"out": &o.Stdout, "err": &o.Stderr} {
			data, err := os.ReadFile(filepath.Join(logs, fmt.Sprintf("rank%d.%s", x.Rank, ext)))
			if err != nil && !os.IsNotExist(err) {
				return nil, fmt.Errorf("reading a rank's output: %w", err)
			}
			*into = data
		}
		if n := x.Stdout.Dropped + x.Stderr.Dropped; n > 0 {
			base.Warnings = append(base.Warnings, fmt.Sprintf("rank %d: the last %d bytes of output were not kept",
				x.Rank, n))
		}
		outputs[i] = o
	}
	parsed, err := g.Part.Command.Parse(outputs)
	if err == nil && len(parsed) == 0 {
		err = fmt.Errorf("the output holds no row")
	}
	if err != nil {
		base.Status, base.Phase, base.Reason = journal.Failed, "parse", err.Error()
		base.Output = lastOutput(logs, 0)
		return []journal.Row{base}, nil
	}
	var rows []journal.Row
	for _, p := range parsed {
		row := r.parsedRow(g.Part, base, p)
		if p.Wrong != "" { // the time of a wrong result is no result
			row.Status, row.Phase, row.Reason = journal.Failed, "check", p.Wrong
			row.Metrics, row.Units, row.Stats, row.Samples = map[string]float64{}, map[string]string{}, nil, 0
			row.Output = lastOutput(logs, 0)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (r *runner) parsedRow(part *bench.DeclaredPart, row journal.Row, p bench.ParsedRow) journal.Row {
	row.Status = journal.OK
	row.Clock, row.Cadence = "program", "program"
	row.Metrics, row.Units = map[string]float64{}, map[string]string{}
	row.Warnings = append([]string(nil), row.Warnings...)
	if len(p.Extra) > 0 {
		for _, c := range p.Extra {
			row.Point = row.Point.With(c.Name, c.Value)
		}
		row.Task = row.Key
		row.Key = journal.Key(row.Bench, row.Part, row.Task, row.Point, row.NumRanks, row.Backend, row.Env, row.Options, nil)
	}
	for name, samples := range p.Samples {
		if len(samples) == 0 {
			continue
		}
		row.Samples = max(row.Samples, len(samples))
		sum, _ := stats.Summarize(samples)
		row.Metrics[name] = sum.P50
		if len(samples) > 1 {
			if row.Stats == nil {
				row.Stats = map[string]journal.Stat{}
			}
			row.Stats[name] = journal.NewStat(sum)
		}
		for _, m := range part.Metrics {
			if m.Name == name && m.Unit != "" {
				row.Units[name] = m.Unit
			}
		}
	}
	return row
}
