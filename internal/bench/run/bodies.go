package run

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

const (
	// startLimit bounds how long the workers may take to connect.
	startLimit = 60 * time.Second
	// stragglerLimit is how long the other ranks may take to end a task that
	// one rank has left; then they are woken, and after as long again killed.
	stragglerLimit = 3 * time.Second
	// quitLimit is how long workers may take to end when asked.
	quitLimit = 2 * time.Second
)

// bodies starts the workers of a group and runs tasks until none is left or the
// launch is broken.
func (r *lane) bodies(ctx context.Context, b *backlog) error {
	c, tr, err := r.assemble(ctx, b.group)
	if err != nil {
		return err
	}
	defer c.close()
	if tr != nil {
		c.end(tr)
		if err := ctx.Err(); err != nil {
			return err
		}
		return r.badStart(c, tr, b)
	}
	r.badStarts = 0
	for i := 0; ; i++ {
		next := b.take(1)
		if len(next) == 0 {
			return nil
		}
		a := next[0]
		if err := r.begin(a); err != nil {
			return err
		}
		before, _ := hostinfo.Snapshot(hostinfo.Root())
		res, tr := c.perform(ctx, i, a.task)
		if ctx.Err() != nil && (tr == nil || r.opts.Joined == nil) {
			c.end(&trouble{reason: "interrupted"})
			return ctx.Err()
		}
		after, _ := hostinfo.Snapshot(hostinfo.Root())
		row := r.row(a.task)
		row.Launch, row.Load = c.logs, loadOf(before, after)
		broken := tr != nil || !res.healthy
		if broken {
			if tr == nil {
				tr = &trouble{reason: "a rank failed"}
				res.fill(&row)
				c.end(tr)
				row.Output = joinLines(row.Output, c.lastOutput(row.Rank))
			} else {
				row.Output = c.lastOutput(tr.rank) // before the dump of a hung worker buries it
				c.end(tr)
				c.blame(&row, tr)
			}
		} else {
			res.fill(&row)
			c.warnCrowded(&row)
			if err := r.keepRaw(&row, res.raw); err != nil {
				return err
			}
		}
		again, err := r.settle(a, row)
		if err == nil && ctx.Err() != nil && tr != nil {
			err = &brokenError{tr.reason}
		}
		if err != nil {
			return err
		}
		b.putBack(again)
		if broken || len(again) > 0 {
			return nil
		}
	}
}

// joinLines puts two texts under each other.
func joinLines(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return strings.TrimRight(a, "\n") + "\n" + b
}

// badStart records a launch that broke before it was ready. The first time it
// may have been an accident, and costs the point it was for; a group that
// cannot start again and again would do so for every point.
func (r *lane) badStart(c *crew, tr *trouble, b *backlog) error {
	r.badStarts++
	many := 1
	if r.badStarts > max(1, r.opts.Retries) {
		many = math.MaxInt
	}
	var again []attempt
	doomed := b.take(many)
	for _, a := range doomed {
		row := r.row(a.task)
		c.blame(&row, tr)
		if len(doomed) > 1 {
			a.budget = r.opts.Retries
		}
		more, err := r.settle(a, row)
		if err != nil {
			return err
		}
		again = append(again, more...)
	}
	b.putBack(again)
	return nil
}

// envSeen compares what a rank saw with what was planned.
func envSeen(planned point.Env, seen map[string]*string) error {
	for _, e := range planned {
		have, want := "(unset)", e.Text()
		v, reported := seen[e.Name]
		if !reported {
			return fmt.Errorf("the worker did not report %s", e.Name)
		}
		if v != nil {
			have = *v
		}
		if (v != nil) != e.Set || have != want {
			return fmt.Errorf("the worker saw %s=%s where %s was planned", e.Name, have, want)
		}
	}
	return nil
}

func (r *runner) keepRaw(row *journal.Row, raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	name := fmt.Sprintf("%s-%s-%d.kbs", r.id, row.Key, row.Trial)
	if err := journal.WriteRaw(r.opts.Dir, name, raw); err != nil {
		return err
	}
	row.Raw = name
	return nil
}

func loadOf(a, b hostinfo.Load) *journal.Load {
	u := hostinfo.Between(a, b)
	return &journal.Load{Before: a.Load1, After: b.Load1, Busy: u.Busy, Steal: u.Steal}
}

func unique(texts []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, t := range texts {
		if !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	return out
}

// lastOutput is the end of what a rank printed, its errors before the rest.
func lastOutput(dir string, rank int) string {
	const most, look = 2000, 64 << 10
	for _, ext := range []string{"err", "out"} {
		f, err := os.Open(filepath.Join(dir, fmt.Sprintf("rank%d.%s", rank, ext)))
		if err != nil {
			continue // it never got as far as printing
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil || st.Size() == 0 {
			continue
		}
		buf := make([]byte, min(st.Size(), look))
		if _, err := f.ReadAt(buf, st.Size()-int64(len(buf))); err != nil {
			continue
		}
		// A Go program that crashes says why first, and then shows its stacks.
		if at := crash.FindIndex(buf); at != nil {
			return toValidText(buf[at[0]:min(at[0]+most, len(buf))])
		}
		return toValidText(buf[max(0, len(buf)-most):])
	}
	return ""
}

// crash is how the Go runtime begins its report.
var crash = regexp.MustCompile(`(?m)^(panic|fatal error): `)
