package cpu

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// rankInfo is the data that a rank sends to all others when it joins.
type rankInfo struct {
	Host    string // name of the host that the rank is assigned to
	Machine string // identifies the machine that the rank runs on
	Name    string // name of the host in errors
	PID     int
	CPUs    []int
	Threads int
	Nonce   []byte
	Proof   []byte // proves that the rank knows the secret
}

// joinHosts joins ranks that may be on several hosts. Every rank makes the same exchanges in the same order. A rank
// that fails reports this in the next exchange, and all ranks give up together. Otherwise the others would wait for it.
func (b backend) joinHosts(ctx context.Context, c dist.Config) (dist.Engine, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("not joined within %v", c.Timeout))
	defer cancel()
	ranks, key, err := meetHosts(ctx, c)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(ranks, func(r rankInfo) bool { return r.Host != ranks[0].Host }) {
		c.Exchange = nil // all ranks are on one host
		return b.Join(ctx, c)
	}
	cl := &cluster{key: key, all: ranks, timeout: c.Timeout, silence: min(connection.SilenceLimit, c.Timeout)}
	if err := cl.open(ctx, c); err != nil {
		return nil, err
	}
	e, fault := b.enter(ctx, c, cl)
	// No rank returns before all are connected.
	faults, err := tcp.Swap(ctx, c.Exchange, c.Size, errorText(fault))
	if err == nil {
		for r, text := range faults {
			if text != "" && r != c.Rank {
				err = errors.Join(err, fmt.Errorf("rank %d (host %s): %s", r, ranks[r].Name, text))
			}
		}
	}
	if fault != nil || err != nil {
		if e != nil {
			e.Close()
		}
		return nil, errors.Join(fault, err)
	}
	return e, nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// meetHosts makes the first exchange, which shows where each rank runs and that all know the secret. It returns the
// data of all ranks and a key that is derived from the secret and the nonces of all ranks.
func meetHosts(ctx context.Context, c dist.Config) ([]rankInfo, []byte, error) {
	machine, err := tcp.Machine()
	if err != nil {
		return nil, nil, err
	}
	me := rankInfo{Host: c.Host, Machine: machine, Name: c.Host, PID: os.Getpid(), CPUs: cores.Allowed(),
		Threads: runtime.GOMAXPROCS(0), Nonce: make([]byte, 16)}
	if c.Host == "" {
		me.Host = machine
		me.Name, _ = os.Hostname()
	}
	rand.Read(me.Nonce)
	me.Proof = proof(c, c.Rank, me.Nonce)
	ranks, err := tcp.Swap(ctx, c.Exchange, c.Size, me)
	if err != nil {
		return nil, nil, fmt.Errorf("finding the other ranks: %w", err)
	}
	mac := hmac.New(sha256.New, []byte(c.Secret))
	for r, p := range ranks {
		if !hmac.Equal(p.Proof, proof(c, r, p.Nonce)) {
			return nil, nil, fmt.Errorf("rank %d (pid %d, host %s) joins with another secret, or another group, than rank %d",
				r, p.PID, p.Name, c.Rank)
		}
		mac.Write(p.Nonce)
	}
	mac.Write([]byte("key of " + c.ID))
	return ranks, mac.Sum(nil), nil
}

// proof proves that a rank knows the secret, without revealing it.
func proof(c dist.Config, rank int, nonce []byte) []byte {
	mac := hmac.New(sha256.New, []byte(c.Secret))
	fmt.Fprintf(mac, "rank %d of %d in %s ", rank, c.Size, c.ID)
	mac.Write(nonce)
	return mac.Sum(nil)
}

// cluster is shared by a group over several hosts and all groups split off from it. Ranks are numbered
// as in the first group.
type cluster struct {
	key     []byte
	all     []rankInfo
	mesh    *tcp.Mesh
	timeout time.Duration
	silence time.Duration // time after which an unreachable host counts as lost
}

// open opens this rank's listener and sends its address to the others. If all ranks are on one
// machine, it accepts connections only from there.
func (cl *cluster) open(ctx context.Context, c dist.Config) (err error) {
	ports, err := connection.PortRangeFromEnv(os.Environ())
	if err != nil {
		return err
	}
	alone := !slices.ContainsFunc(cl.all, func(p rankInfo) bool { return p.Machine != cl.all[0].Machine })
	cl.mesh, err = tcp.Place{Host: cl.all[c.Rank].Name, Interface: c.Interface, Alone: alone, Ports: ports}.Open(ctx,
		c.Exchange, c.Size, cl.key)
	return err
}

// enter forms the first group of a cluster: the shared memory of this host, and connections to the ranks on other
// hosts. On failure it closes the mesh of the cluster.
func (b backend) enter(ctx context.Context, c dist.Config, cl *cluster) (dist.Engine, error) {
	h := newHosts(cl, c.Rank, lists.Range[int](c.Size), c.ID)
	id := shm.Identity{ID: c.ID + " on " + h.ranks[c.Rank].Host, Rank: h.localRank, Size: len(h.locals)}
	shared, err := b.share(ctx, c, id, h)
	if err != nil {
		cl.mesh.Close()
		return nil, fmt.Errorf("the ranks %v of this host: %w", h.locals, err)
	}
	e := hostsEngine{shared}
	if err := h.connect(ctx); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// connect opens the connections to all other ranks: a control connection to every rank, and two data
// connections to each rank on another host. The rank with the higher number dials, so that each pair
// connects once.
func (h *hosts) connect(ctx context.Context) error {
	var mu sync.Mutex // guards faults
	var faults []string
	var all sync.WaitGroup
	for peer := range h.ranks {
		if peer == h.rank {
			continue
		}
		uses := []tcp.Use{tcp.ForControl}
		if !h.local(peer) {
			uses = []tcp.Use{tcp.ForControl, tcp.ForCollectives, tcp.ForProgram}
		}
		for _, use := range uses {
			all.Go(func() {
				conn, err := h.mesh.Connect(ctx, h.tag, h.rank, peer, h.world[peer], use)
				if err == nil {
					err = h.attach(peer, use, conn)
				}
				mu.Lock()
				defer mu.Unlock()
				if err != nil && len(faults) < 3 { // three are enough to explain the failure
					who := fmt.Sprintf("rank %d cannot connect with %s", h.rank, h.Name(peer))
					faults = append(faults, fmt.Sprintf("%s: %v", who, err))
				}
			})
		}
	}
	all.Wait()
	if len(faults) > 0 {
		return errors.New(strings.Join(faults, "; "))
	}
	for _, ranks := range h.byHost {
		if link := h.engine.links[ranks[0]].tcp; h.localRank == 0 && link != nil {
			h.leaders = append(h.leaders, link)
		}
	}
	return nil
}

func (h *hosts) attach(peer int, use tcp.Use, conn *connection.Conn) (err error) {
	switch use {
	case tcp.ForControl:
		h.controls[peer], err = tcp.NewControl(conn, h.silence, tcp.Handler{Failed: h.markFailed, Calls: h.callText})
	case tcp.ForCollectives:
		h.engine.links[peer].tcp, err = tcp.NewLink(conn.Conn.(*net.TCPConn), peer, h.timeout)
	default:
		h.engine.messages[peer].tcp, err = tcp.NewLink(conn.Conn.(*net.TCPConn), peer, h.timeout)
	}
	return err
}
