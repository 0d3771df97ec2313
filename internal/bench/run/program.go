package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/sweep"
	"github.com/kernbench/kernbench/internal/process/culprit"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/process/rankhost"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// runProgram runs one task of a sweep over a user's program, with one process per rank or one process
// that starts its own ranks. It launches the program as often as the sweep requires. The output is read
// when all processes of a launch have ended.
func (s *runSlot) runProgram(ctx context.Context, b *backlog) error {
	next := b.take(1)
	if len(next) == 0 {
		return nil
	}
	a := next[0]
	if err := s.checkInputs(b.group, a.task); err != nil {
		return &jobError{err.Error()}
	}
	if err := s.recordStart(a); err != nil {
		return err
	}
	limit := s.timeout(b.group)
	if s.joined(b.group) {
		limit = 0 // no repetition: ranks of another launcher may be unable to start the program again
	}
	var all []rawSamples
	rows, err := s.withHooks(ctx, b.group, a.task, func() ([]journal.Row, error) {
		return s.measure(b.group, limit, func() ([]journal.Row, error) {
			rows, raw, err := s.launchRepeatedly(ctx, b.group, a.task)
			all = append(all, raw)
			return rows, cmp.Or(err, ctx.Err())
		}, func(kept int, rows []journal.Row) error { return s.keepPrinted(a.task, rows, all[kept]) })
	})
	if rows == nil {
		return err
	}
	if changed := s.checkInputs(b.group, a.task); changed != nil {
		rejectRows(rows, changed)
	}
	retries, recordErr := s.finishAttempt(a, rows...)
	b.putBack(retries)
	return cmp.Or(recordErr, err)
}

// launchRepeatedly launches a point's program until there are enough samples, and makes rows of the
// output of all launches. A failed launch fails the point.
func (s *runSlot) launchRepeatedly(ctx context.Context, g *plan.Group, t plan.Task) ([]journal.Row, rawSamples, error) {
	cmd := g.Part.Command
	if s.joined(g) && s.opts.Joined.Native && cmd.Launches() > 1 {
		row := s.row(t)
		row.Status, row.Phase = journal.Failed, "start"
		row.Reason = journal.Textf("ranks started by %s cannot launch a program more than once, as warmup and until require",
			s.opts.Joined.Launcher)
		return []journal.Row{row}, nil, nil
	}
	for range cmd.Warmup {
		row, parsed, err := s.launchOnce(ctx, g, t)
		if err != nil || parsed == nil {
			row.Reason = "in the warm-up: " + row.Reason
			return []journal.Row{row}, nil, err
		}
	}
	began, all := time.Now(), sweep.NewLaunches(cmd)
	var seen journal.Row // collects the conditions of all launches
	for {
		row, parsed, err := s.launchOnce(ctx, g, t)
		if err != nil || parsed == nil {
			return []journal.Row{row}, nil, err
		}
		seen.Conditions.Add(row.Conditions...)
		row.Conditions = seen.Conditions
		if err := all.Add(parsed); err != nil {
			row.Status, row.Phase, row.Reason = journal.Failed, "parse", journal.Text(err.Error())
			return []journal.Row{row}, nil, nil
		}
		if stopped := all.Stopped(time.Since(began)); stopped != "" {
			rows, raw := s.launchedRows(g.Part, row, all, stopped)
			return rows, raw, nil
		}
	}
}

// launchOnce launches the program once and parses its output. If the program fails, the row has the
// reason and the parsed rows are nil. The error is for faults of the harness and for interrupts.
func (s *runSlot) launchOnce(ctx context.Context, g *plan.Group, t plan.Task) (journal.Row, []decl.ParsedRow, error) {
	row := s.row(t)
	failed := func(status journal.Status, phase, reason string) (journal.Row, []decl.ParsedRow, error) {
		row.Status, row.Phase, row.Reason = status, phase, journal.Text(reason)
		return row, nil, nil
	}
	logs, path, err := s.logDir()
	if err != nil {
		return row, nil, err
	}
	row.Launch = logs
	cmd := g.Part.Command
	argv, err := sweep.Substitute(cmd.Argv, t.Point, row.NumRanks)
	if err != nil {
		return failed(journal.Failed, "start", err.Error())
	}
	l, err := s.start(ctx, g, processSpec{logs: path, argv: argv, dir: cmd.Dir, watch: envNames(t.Env),
		stopOnFailure: true,
		passOn:        launch.UserSignals})
	if err != nil {
		if ctx.Err() != nil {
			return row, nil, ctx.Err()
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
		row.Conditions.Add(outlived(out.Leftovers, "the program"))
	}
	row.Conditions.Add(seen.stops.conditions()...)
	ranks := ranksOf(out, seen, path)
	switch {
	case seen.mismatch != "":
		return failed(journal.Failed, "start", seen.mismatch)
	case seen.late == 0 && out.Failed() != nil && s.partOfInterrupt(ctx, g, *out.Failed()):
		return row, nil, ctx.Err()
	case seen.late > 0 || out.Failed() != nil:
		v := culprit.Blame(culprit.Evidence{Ranks: ranks, Late: seen.late})
		recordBlame(&row, v, ranks, path)
		return failed(statusOf[v.Kind], "run", v.Reason)
	case out.Reason != "":
		return failed(journal.Failed, "run", "the program was ended: "+out.Reason)
	}
	return s.parse(g, row, out, path)
}

// lostProgram returns the reason for a launch that was lost: its agent or a rank host has ended. If a
// rank is known to be the cause, lostProgram records it in the row.
func (s *runSlot) lostProgram(row *journal.Row, g *plan.Group, err error, logs string) (reason string) {
	rank, reason := s.blameLoss(g, err, logs)
	if rank == nil {
		return err.Error()
	}
	row.Rank, row.Output = rank, lastOutput(logs, *rank)
	if line := salientLine(logs, *rank); line != "" {
		reason += "; last output of its program: " + line
	}
	return reason
}

// blameLoss returns the rank whose loss has ended a launch, and the reason. rank is nil if it is not known.
func (s *runSlot) blameLoss(g *plan.Group, err error, logs string) (rank *int, reason string) {
	lost, is := errors.AsType[*rankhost.LostError](err)
	if !is || lost.Rank == rankhost.NoRank {
		return nil, ""
	}
	if via := s.opts.Launcher; via != nil {
		ranks := make([]culprit.Rank, g.Ranks)
		for r := range ranks {
			is := r == lost.Rank
			ranks[r] = culprit.Rank{Rank: r, LastLine: salientLine(logs, r), Failed: is, Missed: is}
		}
		if v := culprit.Blame(culprit.Evidence{Ranks: ranks}); v.Rank != lost.Rank {
			return &v.Rank, via.Name() + " ended all ranks"
		}
	}
	return &lost.Rank, err.Error()
}

// observation is what was observed of a program while it ran.
type observation struct {
	stops    stopWatch     // times in which it was stopped
	mismatch string        // how its environment differs from the planned one; "" if it does not
	late     time.Duration // the time limit, if it exceeded it
	order    map[int]int   // position of each rank in the order of exits, from 1
}

// watchProgram watches a launch until it ends. It stops the launch if its environment is not the
// planned one or if it exceeds the time limit.
func (r *runner) watchProgram(l launched, t plan.Task, limit time.Duration) observation {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	seen := observation{order: map[int]int{}, stops: newStopWatch()}
	events := l.Events()
	poll := time.NewTicker(stopPollInterval)
	defer poll.Stop()
	for {
		select {
		case e, open := <-events:
			if !open {
				return seen
			}
			switch e := e.(type) {
			case launch.Started:
				seen.stops.add(e.Rank, e.PID)
				// Env is nil if the program has already ended, so that its environment cannot be read.
				if e.Env != nil && seen.mismatch == "" {
					if err := checkEnv(t.Env, e.Env); err != nil {
						seen.mismatch = fmt.Sprintf("rank %d: %v", e.Rank, err)
						l.Stop(launch.StopRequest{Reason: seen.mismatch})
					}
				}
			case launch.Exit:
				seen.order[e.Rank] = len(seen.order) + 1
				seen.stops.remove(e.Rank)
			}
		case <-poll.C:
			seen.stops.poll()
		case <-deadline.C:
			seen.late = limit
			l.Stop(launch.StopRequest{Reason: fmt.Sprintf("not finished within %v", limit), Hung: true})
		}
	}
}

// ranksOf collects what is known about each rank after the launch has ended.
func ranksOf(out launch.Outcome, seen observation, logs string) []culprit.Rank {
	return lists.Map(out.Exits, func(x launch.Exit) culprit.Rank {
		return culprit.Rank{Rank: x.Rank, Order: seen.order[x.Rank], End: x.How(), Failed: x.Failed(),
			Signal: x.Signal, Stopped: x.Stopped, Activity: x.Activity, LastLine: salientLine(logs, x.Rank)}
	})
}

// statusOf has the status of a row for a kind of verdict.
var statusOf = map[culprit.Kind]journal.Status{culprit.Failed: journal.Failed, culprit.Hung: journal.Timeout}

// recordBlame records in a row which rank is to blame and how all ranks ended.
func recordBlame(row *journal.Row, v culprit.Verdict, ranks []culprit.Rank, logs string) {
	if v.Rank >= 0 {
		row.Rank, row.Output = &v.Rank, lastOutput(logs, v.Rank)
	}
	if len(ranks) == 1 { // Reason and Output already describe it
		return
	}
	for _, r := range ranks {
		end := journal.RankEnd{Rank: r.Rank, End: r.End, Said: r.LastLine}
		if r.Activity != nil {
			end.Doing = fmt.Sprintf("%v, %.2f s of CPU time", r.Activity, r.Activity.CPU.Seconds())
		}
		row.Ranks = append(row.Ranks, end)
	}
}

// parse extracts rows from the output of all ranks. If it finds none, the returned row has the reason.
func (r *runner) parse(g *plan.Group, base journal.Row, out launch.Outcome, logs string) (journal.Row,
	[]decl.ParsedRow, error) {
	outputs := make([]decl.RankOutput, len(out.Exits))
	for i, x := range out.Exits {
		o, err := outputOf(x, logs)
		if err != nil {
			base.Status, base.Phase, base.Rank, base.Output = journal.Failed, "parse", &x.Rank, lastOutput(logs, x.Rank)
			base.Reason = journal.Text(err.Error())
			return base, nil, nil
		}
		outputs[i] = o
	}
	parsed, err := g.Part.Command.Parse(outputs)
	if err == nil && len(parsed) == 0 {
		err = fmt.Errorf("the output contains no row")
	}
	if err != nil {
		base.Status, base.Phase, base.Reason = journal.Failed, "parse", journal.Text(err.Error())
		base.Output = lastOutput(logs, 0)
		return base, nil, nil
	}
	base.Conditions.Add(otherPoint(&base, parsed[0].Printed)...)
	return base, parsed, nil
}

// outlived is the condition that processes of a program were left when it had ended.
func outlived(processes int, program string) journal.Condition {
	return journal.NewCondition(journal.CodeOutlived, journal.Named{"processes": float64(processes)}, program)
}

// otherPoint returns conditions about numbers that a program printed for coordinates of the point, if they differ from
// the ones it was given: it may have rounded or ignored an argument, or not have found the other ranks.
func otherPoint(row *journal.Row, printed point.Point) (found []journal.Condition) {
	for _, c := range printed {
		given, _ := row.Point.Get(c.Name)
		if e, has := row.Env.Get(c.Name); has && e.Set {
			given, _ = point.Parse(point.Float, e.Value)
		}
		if c.Name == bench.RanksAxis && row.NumRanks != nil {
			given = point.IntValue(int64(*row.NumRanks))
		}
		if !given.Kind().Numeric() || !c.Value.Kind().Numeric() {
			continue // the program may have another name for it
		}
		if want, have := given.Float(), c.Value.Float(); math.Abs(have-want) > printedRounding*math.Abs(want) {
			found = append(found, journal.NewCondition(journal.CodeOtherPoint,
				journal.Named{"printed": have, "given": want}, c.Name))
		}
	}
	return found
}

// printedRounding is the largest relative difference of a number that is printed with few digits.
const printedRounding = 1e-3

// outputOf reads the logs of a rank. Incomplete output is an error: a number that is cut off would be parsed as
// another number.
func outputOf(x launch.Exit, logs string) (o decl.RankOutput, err error) {
	o = decl.RankOutput{Rank: x.Rank, Wall: x.Wall, CPU: x.CPU}
	if n := x.Stdout.Dropped + x.Stderr.Dropped; n > 0 {
		return o, fmt.Errorf("the last %d bytes of the output of rank %d were not kept: %s", n, x.Rank,
			cmp.Or(x.Stdout.LogError, x.Stderr.LogError,
				fmt.Sprintf("it has more than %d MiB, or the disk is full", launch.DefaultLogLimit>>20)))
	}
	if o.Stdout, err = readLog(x.Rank, "out", x.Stdout.Bytes, logs); err == nil {
		o.Stderr, err = readLog(x.Rank, "err", x.Stderr.Bytes, logs)
	}
	return o, err
}

// readLog reads the log of one stream, to which the rank has written the given number of bytes. The program, or a user
// who deletes the RUN folder, may have removed or replaced the log.
func readLog(rank int, ext string, written int64, logs string) ([]byte, error) {
	data, err := infile.ReadBelow(logs, logName(rank, ext), launch.DefaultLogLimit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the output of rank %d: %w", rank, err)
	}
	if missing := written - int64(len(data)); missing > 0 {
		return nil, fmt.Errorf("the output of rank %d was deleted while it ran: %d of %d bytes are missing in %s", rank,
			missing, written, filepath.Join(filepath.Base(logs), logName(rank, ext)))
	}
	return data, nil
}

// rawSamples are the printed samples of all launches of a point, by row key and metric.
type rawSamples map[string]map[string][][]float64

// launchedRows makes rows of the output of all launches of a point.
func (r *runner) launchedRows(part *decl.Part, base journal.Row, all *sweep.Launches,
	stopped measure.StopReason) ([]journal.Row, rawSamples) {
	var rows []journal.Row
	raw := rawSamples{}
	for _, l := range all.Rows {
		row := r.parsedRow(part, base, l)
		if l.Wrong != "" { // the time of a wrong result is meaningless
			row.Status, row.Phase, row.Reason = journal.Failed, "check", journal.Text(l.Wrong)
			row.Metrics, row.Units, row.Stats, row.Samples = map[string]float64{}, map[string]string{}, nil, 0
			row.Output = lastOutput(filepath.Join(r.opts.Dir, "logs", row.Launch), 0)
		} else {
			row.Conditions.Add(l.Doubt...)
			recordSampling(&row, part.Command.Until, stopped, all.Noise(l))
			checkDrift(&row, l, part.Metrics)
			if row.Samples > 1 {
				raw[row.Key] = l.Samples
			}
		}
		rows = append(rows, row)
	}
	return rows, raw
}

// checkDrift tests the samples of a row's main metric for drift, two modes and dependence. The samples are from one
// launch or from several.
func checkDrift(row *journal.Row, l sweep.LaunchedRow, declared []journal.MetricInfo) {
	main, _ := dataset.MainMetric(&journal.Header{Metrics: declared}, dataset.Set{row})
	name := main.Name
	series := l.Values(name)
	if change, drifts := measure.Drift(series); drifts {
		if row.Sampling == nil {
			row.Sampling = &journal.Sampling{Stopped: string(measure.MaxSamples), MinSamples: 1, MaxSamples: 1}
		}
		row.Sampling.Drift = &change
	}
	if modes := journal.Modes(row, name); modes != nil {
		row.Conditions.Add(measure.TwoModes(modes, row.Units[name]))
	}
	if s, _ := row.Stats.Find(name); s.Effective != nil {
		row.Conditions.Add(measure.Dependence(len(series), *s.Effective)...)
	}
}

// recordSampling records why no more launches were made for a row, if there could be several.
func recordSampling(row *journal.Row, until measure.Stop, stopped measure.StopReason, noise float64) {
	if until.MaxSamples <= 1 {
		return
	}
	row.Sampling = &journal.Sampling{Stopped: string(stopped), Target: until.RelNoise, MinSamples: until.MinSamples,
		MaxSamples: until.MaxSamples, MinTime: until.MinTime.Seconds()}
	if until.MaxTime < measure.NoTimeLimit {
		row.Sampling.MaxTime = until.MaxTime.Seconds()
	}
	if math.IsNaN(noise) || math.IsInf(noise, 0) {
		return
	}
	row.Sampling.Noise = &noise
	if until.RelNoise > 0 && noise > until.RelNoise {
		row.Conditions.Add(journal.NewCondition(journal.CodeNoise, journal.Named{"launches": float64(row.Samples),
			"noise": noise, "target": until.RelNoise}, string(stopped)))
	}
}

// parsedRow makes the row for one line of a program's output. Key columns of a table become additional
// coordinates. A row with such columns has its own key; its Task is the key of the planned point.
func (r *runner) parsedRow(part *decl.Part, row journal.Row, l sweep.LaunchedRow) journal.Row {
	row.Status = journal.OK
	row.Clock, row.Cadence = "program", "program"
	row.Metrics, row.Units = map[string]float64{}, map[string]string{}
	if len(l.Extra) > 0 {
		for _, c := range l.Extra {
			row.Point = row.Point.With(c.Name, c.Value)
		}
		row.Task = row.Key
		row.Key = journal.Key(row.Bench, row.Part, row.Task, row.Point, row.NumRanks, row.Backend, row.Env, row.Options, nil)
	}
	for name := range l.Samples {
		samples := l.Values(name)
		if len(samples) == 0 {
			continue
		}
		row.Samples = max(row.Samples, len(samples))
		sum := stats.SummarizeSeries(samples)
		row.Metrics[name] = sum.P50
		if len(samples) > 1 {
			row.Stats = row.Stats.With(name, journal.NewStat(sum))
		}
		for _, m := range part.Metrics {
			if m.Name == name && m.Unit != "" {
				row.Units[name] = m.Unit
			}
		}
	}
	return row
}

// keepPrinted stores the samples of all rows of a point in one file. One file per row could be very many
// files.
func (r *runner) keepPrinted(t plan.Task, rows []journal.Row, raw rawSamples) error {
	if len(raw) == 0 {
		return nil
	}
	data, err := json.Marshal(raw)
	if err != nil {
		return fmt.Errorf("storing samples: %w", err)
	}
	name := fmt.Sprintf("%s-%s-%d.json", r.id, t.Key, t.Trial)
	if err := journal.WriteRaw(r.opts.Dir, name, data); err != nil {
		return err
	}
	for i := range rows {
		if raw[rows[i].Key] != nil {
			rows[i].Raw = name
		}
	}
	return nil
}
