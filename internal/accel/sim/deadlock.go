package sim

import (
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/internal/accel/program"
)

// Deadlock is the error of programs that wait for each other: no event is left
// although they have not ended.
type Deadlock struct {
	Stuck int      // programs that have not ended
	Chain []string // from one of them along what each waits for
	Cycle bool     // the chain leads back into itself
}

func (d *Deadlock) Error() string {
	text := fmt.Sprintf("deadlock, %d programs wait forever: %s", d.Stuck, strings.Join(d.Chain, "; "))
	if d.Cycle {
		text += "; the chain is a cycle"
	}
	return text
}

// deadlock follows who waits for whom from the first program that is stuck.
func (g *engine) deadlock() error {
	d := &Deadlock{Stuck: g.running}
	seen := map[*pe]bool{}
	var p *pe
	for _, p = range g.pes {
		if p.ended == 0 {
			break
		}
	}
	for p != nil {
		if seen[p] {
			d.Cycle = true
			break
		}
		seen[p] = true
		text, next := g.waits(p)
		d.Chain = append(d.Chain, text)
		p = next
		if p != nil && p.over && p.async == 0 {
			d.Chain = append(d.Chain, fmt.Sprintf("%v has ended", p.prog.ID))
			break
		}
	}
	return d
}

// waits says what a program waits for, and which program would have to act.
func (g *engine) waits(p *pe) (text string, next *pe) {
	at := p.pc
	if p.waitFor >= 0 {
		at = p.waitFor
	}
	if p.over {
		for at = range p.prog.Ops {
			if p.prog.Ops[at].Kind == program.RecvAsync && !p.log[at].done {
				break
			}
		}
	}
	op := &p.prog.Ops[at]
	who, how := int(op.Port.From), "from"
	if op.Kind == program.Send {
		who, how = int(op.Port.To), "for a free slot at"
	}
	peer := g.Topo.At(who)
	if i, runs := g.byIndex[who]; runs {
		next = g.pes[i]
	}
	text = fmt.Sprintf("%v waits in call %d (%v) %s %v", p.prog.ID, at, op.Kind, how, peer)
	switch {
	case op.Any:
		return fmt.Sprintf("%v waits in call %d (recv) for anyone", p.prog.ID, at), nil
	case next == nil:
		text += ", which runs no program"
	}
	return text, next
}
