package connection

import (
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// maxUnproven bounds the connections that have not yet proved anything.
	maxUnproven = 256
	// maxRefusals bounds the refusals that nobody has asked about yet.
	maxRefusals = 16
	// handshakeTime is how long a handshake may take while others wait at a full door.
	// It takes a round trip; who is late on a busy machine comes again.
	handshakeTime = 100 * time.Millisecond
)

// door is where those wait who have connected and proved nothing: so many and no more.
// When it is full, the address that has sent the most gives up its oldest, so that a
// stranger's connections make room for those of others, and silent ones for new ones.
type door struct {
	mu      sync.Mutex
	waiting []*guest // in the order of arrival
	left    chan struct{}
}

type guest struct {
	conn net.Conn
	from string
	came time.Time
}

func newDoor() *door { return &door{left: make(chan struct{}, 1)} }

// enter lets a connection wait for its handshake, once there is room.
func (d *door) enter(conn net.Conn, from string) *guest {
	for {
		wait, full := d.makeRoom()
		if !full {
			break
		}
		select {
		case <-d.left:
		case <-time.After(wait):
		}
	}
	g := &guest{conn, from, time.Now()}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, g)
	return g
}

// makeRoom shows somebody out if the door is full and their time is over; else it says
// how long that takes.
func (d *door) makeRoom() (wait time.Duration, full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) < maxUnproven {
		return 0, false
	}
	number := map[string]int{}
	for _, g := range d.waiting {
		number[g.from]++
	}
	oldest := d.waiting[0]
	for _, g := range d.waiting {
		if number[g.from] > number[oldest.from] {
			oldest = g
		}
	}
	if wait = handshakeTime - time.Since(oldest.came); wait <= 0 {
		oldest.conn.Close() // its handshake fails, and it leaves
		wait = handshakeTime
	}
	return wait, true
}

// leave says that a handshake is over.
func (d *door) leave(g *guest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.waiting, g); i >= 0 {
		d.waiting = slices.Delete(d.waiting, i, i+1)
	}
	select {
	case d.left <- struct{}{}:
	default:
	}
}
