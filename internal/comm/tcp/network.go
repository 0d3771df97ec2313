package tcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/process/connection"
)

// Network describes the links between the hosts of a job, as their ranks measured them over their own connections.
type Network struct {
	Hosts    []string `json:"hosts"`    // by name, in the order of their first ranks
	Ranks    []int    `json:"ranks"`    // the host of each rank
	Machines int      `json:"machines"` // fewer than hosts if several hosts are on one machine
	Pairs    []Pair   `json:"pairs,omitempty"`
	AtOnce   []Rates  `json:"at_once,omitempty"` // by host, while every host sends to all others
}

// Pair is the link from one host to another. If hosts have several ranks, its rates are sums over all their
// connections.
type Pair struct {
	From      int     `json:"from"` // index of a host
	To        int     `json:"to"`
	LatencyUS float64 `json:"latency_us"` // of the smallest message: half of a round trip
	GBps      float64 `json:"gbps"`       // 1e9 bytes per second, while the other direction is idle
	BothGBps  float64 `json:"both_gbps"`  // the same while the other direction is busy too
}

// Rates are the rates of one host.
type Rates struct {
	OutGBps float64 `json:"out_gbps"`
	InGBps  float64 `json:"in_gbps"`
}

// Best returns the highest measured rates of a host, which are its limits.
func (n Network) Best(host int) (r Rates) {
	if len(n.AtOnce) > 0 {
		r = n.AtOnce[host]
	}
	for _, p := range n.Pairs {
		if rate := max(p.GBps, p.BothGBps); p.From == host {
			r.OutGBps = max(r.OutGBps, rate)
		} else if p.To == host {
			r.InGBps = max(r.InGBps, rate)
		}
	}
	return r
}

// Latency returns the smallest and the largest latency between two hosts.
func (n Network) Latency() (lowest, highest float64) {
	lowest = math.Inf(1)
	for _, p := range n.Pairs {
		lowest, highest = min(lowest, p.LatencyUS), max(highest, p.LatencyUS)
	}
	return lowest, highest
}

// Measuring holds the parameters of a network measurement, in which all ranks take part.
type Measuring struct {
	Exchange   Exchange
	Rank, Size int
	Host       string // the host that this rank counts as being on; "": its own
	Interface  string // the network interface to measure; "": any
	Ports      connection.PortRange
	// Fabric is the name of the network that the backend may use instead of TCP, see [Fabric]. If a rank has one, a
	// measurement of TCP is meaningless, and Measure returns an error.
	Fabric string
	// Time is the minimum duration of a transfer. Each rate needs about five transfers.
	Time time.Duration
	// Rounds limits the number of pairs of each host that are measured; 0: all of them.
	Rounds int
}

// identity is the data that a rank sends to all others before a measurement.
type identity struct {
	Host, Machine, Name string
	Fabric              string `json:",omitempty"`
	Nonce               []byte
}

// Fabric returns the names of this host's devices for networks that a library may use instead of TCP, or "".
func Fabric() string { return fabricIn("/sys/class") }

func fabricIn(classes string) string {
	// InfiniBand, RoCE, Omni-Path and EFA devices are in the class infiniband, Slingshot devices in
	// cxi.
	for _, class := range []string{"infiniband", "cxi"} {
		if entries, _ := os.ReadDir(filepath.Join(classes, class)); len(entries) > 0 { // most hosts have no such folder
			return entries[0].Name()
		}
	}
	return ""
}

// Measure measures the network between the hosts: latency and bandwidth of pairs of hosts, in one and in both
// directions, and the bandwidth of all hosts at once. Pairs without a common host are measured at the same time.
// Measure does nothing if all ranks are on one host.
func (m Measuring) Measure(ctx context.Context) (Network, error) {
	machine, err := Machine()
	if err != nil {
		return Network{}, err
	}
	name, _ := os.Hostname()
	me := identity{Host: cmp.Or(m.Host, machine), Machine: machine, Name: cmp.Or(m.Host, name), Fabric: m.Fabric,
		Nonce: make([]byte, 16)}
	rand.Read(me.Nonce)
	all, err := Swap(ctx, m.Exchange, m.Size, me)
	if err != nil {
		return Network{}, fmt.Errorf("finding the other ranks: %w", err)
	}
	p := &prober{Measuring: m, ctx: ctx, links: map[int]*Link{}}
	p.assignHosts(all)
	if len(p.Hosts) < 2 {
		return p.Network, nil
	}
	for _, id := range all {
		if id.Fabric != "" {
			return Network{}, fmt.Errorf("data may go over %s of host %s instead of TCP, so a measurement of TCP would "+
				"not describe it", id.Fabric, id.Name)
		}
	}
	defer p.close()
	if err := p.connect(me, all); err != nil {
		return Network{}, fmt.Errorf("measuring the network between %v: %w", p.Hosts, err)
	}
	if err := p.measure(); err != nil {
		return Network{}, fmt.Errorf("measuring the network between %v: %w", p.Hosts, err)
	}
	return p.Network, nil
}

// prober is the state of a measurement on one rank.
type prober struct {
	Measuring
	Network
	ctx    context.Context
	byHost [][]int       // ranks by host
	links  map[int]*Link // by rank
	sleep  Sleeper
}

// assignHosts computes which rank is on which host.
func (p *prober) assignHosts(all []identity) {
	at, machines := map[string]int{}, map[string]bool{}
	for r, id := range all {
		h, known := at[id.Host]
		if !known {
			h = len(p.Hosts)
			at[id.Host] = h
			p.Hosts, p.byHost = append(p.Hosts, id.Name), append(p.byHost, nil)
		}
		p.byHost[h] = append(p.byHost[h], r)
		p.Network.Ranks = append(p.Network.Ranks, h)
		machines[id.Machine] = true
	}
	p.Machines = len(machines)
}

// partner returns the rank with the same index on another host, if there is one.
func (p *prober) partner(host int) (rank int, ok bool) {
	own := p.byHost[p.Network.Ranks[p.Rank]]
	if i := slices.Index(own, p.Rank); host != p.Network.Ranks[p.Rank] && i < len(p.byHost[host]) {
		return p.byHost[host][i], true
	}
	return 0, false
}

// connectLimit is how long ranks wait for each other's connections.
const connectLimit = 30 * time.Second

// connect connects each rank with its partners.
func (p *prober) connect(me identity, all []identity) error {
	key, alone := sha256.New(), true
	for _, id := range all {
		key.Write(id.Nonce)
		alone = alone && id.Machine == me.Machine
	}
	ctx, cancel := context.WithTimeoutCause(p.ctx, connectLimit, fmt.Errorf("not connected within %v", connectLimit))
	defer cancel()
	mesh, err := Place{me.Name, p.Interface, alone, p.Ports}.Open(ctx, p.Exchange, p.Size, key.Sum(nil))
	if err != nil {
		return err
	}
	defer mesh.Close()
	for host := range p.Hosts {
		peer, ok := p.partner(host)
		if !ok {
			continue
		}
		var conn *connection.Conn
		if conn, err = mesh.Connect(ctx, [16]byte{}, p.Rank, peer, peer, ForProgram); err == nil {
			p.links[peer], err = NewLink(conn.Conn.(*net.TCPConn), peer, time.Minute)
		}
		if err != nil {
			err = fmt.Errorf("rank %d (host %s) cannot connect with rank %d (host %s): %w", p.Rank, me.Name, peer,
				all[peer].Name, err)
			break
		}
	}
	_, err = p.gatherTimes(0, err)
	return err
}

func (p *prober) close() {
	for _, l := range p.links {
		l.Close()
	}
}

// gatherTimes returns the times of all ranks, in microseconds. If one rank has failed, it returns an error on all
// ranks.
func (p *prober) gatherTimes(us float64, fault error) ([]float64, error) {
	type result struct {
		US    float64
		Fault string
	}
	mine := result{US: us}
	if fault != nil {
		mine.Fault = fault.Error()
	}
	all, err := Swap(p.ctx, p.Exchange, p.Size, mine)
	if err != nil {
		return nil, errors.Join(fault, err)
	}
	times := make([]float64, len(all))
	for r, a := range all {
		if times[r] = a.US; a.Fault != "" {
			return nil, errors.New(a.Fault)
		}
	}
	return times, nil
}
