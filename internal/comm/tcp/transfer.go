package tcp

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"
)

const (
	probeBuffer = 256 << 10 // small enough to stay in a cache, so that the link is measured and not memory
	probeFirst  = 64 << 10  // bytes of the first transfer
	probeGrowth = 8         // factor from one transfer to the next, until they take long enough
	probeMost   = 8 << 30
	probeTries  = 3
	probePings  = 10 // timed round trips
)

// measure makes all measurements, each on all ranks at once.
func (p *prober) measure() error {
	odd := len(p.Hosts) | 1
	done := 0
	for round := range odd {
		pairs := pairsOf(len(p.Hosts), round)
		if len(pairs) == 0 || p.Rounds > 0 && done == p.Rounds {
			continue
		}
		done++
		if err := p.measurePairs(pairs); err != nil {
			return err
		}
	}
	if len(p.Hosts) == 2 { // with two hosts, both directions are already all traffic at once
		a, b := p.Pairs[0], p.Pairs[1]
		p.AtOnce = []Rates{{a.BothGBps, b.BothGBps}, {b.BothGBps, a.BothGBps}}
		return nil
	}
	rates, err := p.rate(func(int, int) bool { return true })
	if err != nil {
		return err
	}
	for h := range p.Hosts {
		p.AtOnce = append(p.AtOnce, rates[h])
	}
	return nil
}

// pairsOf returns the pairs of hosts of a round, in which no host has two partners. Let n be the number of hosts, plus
// 1 if it is even. Two hosts are a pair if the sum of their numbers is the round modulo n. After n rounds every pair
// has met.
func pairsOf(hosts, round int) (pairs [][2]int) {
	odd := hosts | 1
	for a := range hosts {
		if b := (round - a + odd) % odd; a < b && b < hosts {
			pairs = append(pairs, [2]int{a, b})
		}
	}
	return pairs
}

// measurePairs measures some pairs at the same time: latency, then each direction, then both.
func (p *prober) measurePairs(pairs [][2]int) error {
	latency, err := p.latency(pairs)
	if err != nil {
		return err
	}
	var ways [3][]Rates // by host: the first sends, the second sends, both do
	for way := range ways {
		ways[way], err = p.rate(func(from, to int) bool {
			return way != 1 && slices.Contains(pairs, [2]int{from, to}) || way != 0 && slices.Contains(pairs, [2]int{to, from})
		})
		if err != nil {
			return err
		}
	}
	for i, pair := range pairs {
		a, b := pair[0], pair[1]
		p.Pairs = append(p.Pairs,
			Pair{From: a, To: b, LatencyUS: latency[i], GBps: ways[0][b].InGBps, BothGBps: ways[2][b].InGBps},
			Pair{From: b, To: a, LatencyUS: latency[i], GBps: ways[1][a].InGBps, BothGBps: ways[2][a].InGBps})
	}
	return nil
}

// latency returns the shortest time of a message, in one direction, between the first ranks of each pair of hosts.
func (p *prober) latency(pairs [][2]int) ([]float64, error) {
	best := make([]float64, len(pairs))
	for i := range best {
		best[i] = math.Inf(1)
	}
	for try, tries := 0, 1; try < tries; try++ {
		var us float64
		var err error
		for _, pair := range pairs {
			a, b := p.byHost[pair[0]][0], p.byHost[pair[1]][0]
			switch p.Rank {
			case a:
				us, err = p.pingPong(0, p.links[b])
			case b:
				us, err = p.pingPong(1, p.links[a])
			}
		}
		all, err := p.gatherTimes(us, err)
		if err != nil {
			return nil, err
		}
		if try == 0 { // all ranks compute the same number
			tries = 1 + int(max(1, min(20, us64(p.Time)/(probePings*slices.Max(all)))))
		}
		for i, pair := range pairs {
			best[i] = min(best[i], all[p.byHost[pair[0]][0]]/2)
		}
	}
	return best, nil
}

func us64(d time.Duration) float64 { return float64(d) / 1e3 }

// pingPong makes several round trips and returns the time of the shortest in microseconds. Side 0 sends first.
func (p *prober) pingPong(side int, l *Link) (us float64, err error) {
	if err := p.barrier(l); err != nil {
		return 0, err
	}
	us = math.Inf(1)
	for k := range probePings {
		begin := time.Now()
		h := Header{Call: uint64(k)}
		for turn := range 2 {
			if turn == side {
				l.Out.PostHeader(h)
			} else {
				l.In.ExpectHeader(h)
			}
			if err := p.moveAll(l.Idle, l); err != nil {
				return 0, err
			}
		}
		us = min(us, us64(time.Since(begin)))
	}
	return us, nil
}

// barrier is a barrier with the ranks at the other ends of links.
func (p *prober) barrier(links ...*Link) error {
	for _, l := range links {
		l.Out.PostHeader(Header{Sign: 1})
		l.In.ExpectHeader(Header{Sign: 1})
	}
	return p.moveAll(func() bool { return !slices.ContainsFunc(links, func(l *Link) bool { return !l.Idle() }) }, links...)
}

// rate measures the bandwidth of all flows at once, as each receiver sees it, and returns the best of several
// transfers. Transfers grow until they take long enough. The first long one is not counted, because networks let bursts
// pass faster than they can sustain. For the same reason, a later transfer that is too short again is discarded.
func (p *prober) rate(flows func(from, to int) bool) ([]Rates, error) {
	var best []Rates // none until a transfer took long enough
	for bytes, counted := probeFirst, 0; counted < probeTries; {
		us, err := p.transfer(flows, bytes)
		all, err := p.gatherTimes(us, err)
		if err != nil {
			return nil, err
		}
		switch {
		case slices.Max(all) < us64(p.Time) && bytes < probeMost:
			bytes, counted, best = bytes*probeGrowth, 0, nil
		case best == nil:
			best = make([]Rates, len(p.Hosts))
		default:
			for h, r := range p.rates(flows, bytes, all) {
				best[h] = Rates{max(best[h].OutGBps, r.OutGBps), max(best[h].InGBps, r.InGBps)}
			}
			counted++
		}
	}
	return best, nil
}

// rates computes the rates of a transfer from the times of the receivers. bytes is the number of bytes per connection.
// The data of a host has arrived when the last receiver on that host has all of its data.
func (p *prober) rates(flows func(from, to int) bool, bytes int, us []float64) []Rates {
	type load struct{ bytes, us float64 }
	in, out := make([]load, len(p.Hosts)), make([]load, len(p.Hosts))
	for from := range p.Hosts {
		for to := range p.Hosts {
			if from == to || !flows(from, to) {
				continue
			}
			for _, r := range p.byHost[to][:min(len(p.byHost[from]), len(p.byHost[to]))] {
				for _, l := range []*load{&out[from], &in[to]} {
					l.bytes += float64(bytes)
					l.us = max(l.us, us[r])
				}
			}
		}
	}
	rates := make([]Rates, len(p.Hosts))
	for h := range rates {
		if in[h].us > 0 {
			rates[h].InGBps = in[h].bytes / in[h].us / 1e3
		}
		if out[h].us > 0 {
			rates[h].OutGBps = out[h].bytes / out[h].us / 1e3
		}
	}
	return rates
}

// transfer makes this rank's part of one transfer. It returns the time until the rank had received
// everything, or 0 if it receives nothing.
func (p *prober) transfer(flows func(from, to int) bool, bytes int) (us float64, err error) {
	var links, from, to []*Link
	here := p.Network.Ranks[p.Rank]
	for host := range p.Hosts {
		peer, ok := p.partner(host)
		if !ok {
			continue
		}
		l := p.links[peer]
		sends, receives := flows(here, host), flows(host, here)
		if sends {
			to = append(to, l)
		}
		if receives {
			from = append(from, l)
		}
		if sends || receives {
			links = append(links, l)
		}
	}
	if err := p.barrier(links...); err != nil {
		return 0, err
	}
	// A receiver reads its clock before its senders can begin, because they wait for its part of the second barrier.
	// If it read the clock after the barrier and lost its core in between, data that arrived meanwhile would seem to
	// arrive in no time. The barrier's message is short compared with the transfer.
	begin := time.Now()
	if err := p.barrier(links...); err != nil {
		return 0, err
	}
	memory := make([]byte, 2*probeBuffer)
	for left := bytes; left > 0; left -= probeBuffer {
		n := min(left, probeBuffer)
		for _, l := range to {
			l.Out.Post(memory[:n])
		}
		for _, l := range from {
			l.In.Expect(memory[probeBuffer:][:n])
		}
	}
	arrived := func() bool { return !slices.ContainsFunc(from, func(l *Link) bool { return l.In.Pending() }) }
	if err := p.moveAll(arrived, links...); err != nil {
		return 0, err
	}
	if len(from) > 0 {
		us = us64(time.Since(begin))
	}
	return us, p.moveAll(func() bool {
		return !slices.ContainsFunc(to, func(l *Link) bool { return l.Out.Pending() })
	}, links...)
}

// moveAll moves posted data until done returns true. It spins for a short time and then sleeps, because the other end
// may be far away or need this core.
func (p *prober) moveAll(done func() bool, links ...*Link) error {
	for idle := 0; !done(); {
		moved := false
		for _, l := range links {
			m, err := l.Progress()
			if err != nil {
				return fmt.Errorf("rank %d, connected with rank %d: %w", p.Rank, l.Peer, err)
			}
			moved = moved || m
		}
		switch idle++; {
		case moved:
			idle = 0
		case idle > 1000:
			if err := p.ctx.Err(); err != nil {
				return err
			}
			p.sleep.Sleep(100*time.Millisecond, links...)
		case idle > 100:
			runtime.Gosched()
		}
	}
	return nil
}
