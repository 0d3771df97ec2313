package topo

import (
	"errors"
	"fmt"
)

// Space is a kind of memory.
type Space string

// The memories of a cube. Each PE has its own TCM and its own share of the HBM; the SRAM is shared by
// the cube.
const (
	HBMSpace  Space = "hbm"
	SRAMSpace Space = "sram"
	TCMSpace  Space = "tcm"
)

// Spaces returns the kinds of memory, nearest to the PE first.
func Spaces() []string { return []string{string(TCMSpace), string(SRAMSpace), string(HBMSpace)} }

// Location is the position of a byte in the system.
type Location struct {
	PEID   // PE is 0 for SRAM
	Space  Space
	Offset int64
}

func (l Location) String() string {
	if l.Space == SRAMSpace {
		return fmt.Sprintf("sip%d.cube%d.sram+%d", l.SIP, l.Cube, l.Offset)
	}
	return fmt.Sprintf("%v.%s+%d", l.PEID, l.Space, l.Offset)
}

// Address is a physical address. Its bit fields are the SIP, the die, and the offset on the die.
type Address uint64

// widths holds the sizes of the fields of an address in bits. The hardware has 4, 5 and 42; larger
// topologies have wider fields.
type widths struct{ sip, die, local int }

// The two upper bits of the offset on a die select the memory. No memory has the value 0, so that address 0 is invalid
// and a pointer that was not set is detected.
const (
	hbmWindow = iota + 1
	sramWindow
	tcmWindow
	windowBits = 2
)

// addressWidths returns the field widths for the topology, or an error if an address needs more than 64 bits.
func (t *Topology) addressWidths() (widths, error) {
	pes := int64(t.PEs())
	largest := max(t.Cube.HBM.Bytes, t.Cube.SRAMBytes, pes<<fieldBits(max(t.PE.TCMBytes, 2)))
	w := widths{
		sip:   max(4, fieldBits(int64(t.SIPs.Count))),
		die:   max(5, fieldBits(int64(t.Cubes.Count())+1)),
		local: max(42, fieldBits(largest)+windowBits),
	}
	if bits := w.sip + w.die + w.local; bits > 64 {
		return w, fmt.Errorf("addresses need %d bits (SIP %d, die %d, offset %d), more than 64", bits, w.sip, w.die, w.local)
	}
	return w, nil
}

// HBMSlice returns the size of one PE's share of the HBM in bytes.
func (t *Topology) HBMSlice() int64 { return t.Cube.HBM.Bytes / int64(t.PEs()) }

// Capacity returns the size of a PE's memory of the given kind in bytes. For the SRAM, it is the size of the cube's
// SRAM.
func (t *Topology) Capacity(s Space) int64 {
	switch s {
	case HBMSpace:
		return t.HBMSlice()
	case SRAMSpace:
		return t.Cube.SRAMBytes
	}
	return t.PE.TCMBytes
}

// Address returns the address of a location.
func (t *Topology) Address(l Location) (Address, error) {
	if !t.has(l.PEID) {
		return 0, fmt.Errorf("%v is not in a system of %d SIPs x %d cubes x %d PEs", l.PEID, t.SIPs.Count, t.Cubes.Count(),
			t.PEs())
	}
	if size := t.Capacity(l.Space); l.Offset < 0 || l.Offset >= size {
		return 0, fmt.Errorf("%v lies outside of the memory's %d bytes", l, size)
	}
	local, window := l.Offset, int64(hbmWindow)
	switch l.Space {
	case HBMSpace:
		local += int64(l.PE) * t.HBMSlice()
	case SRAMSpace:
		window = sramWindow
	case TCMSpace:
		window = tcmWindow
		local += int64(l.PE) << fieldBits(max(t.PE.TCMBytes, 2))
	}
	w := t.addressWidth
	local |= window << (w.local - windowBits)
	return Address(l.SIP)<<(w.die+w.local) | Address(l.Cube)<<w.local | Address(local), nil
}

// Locate returns the location of an address. It is the inverse of Address.
func (t *Topology) Locate(a Address) (Location, error) {
	if a == 0 {
		return Location{}, errors.New("address 0 is invalid")
	}
	w := t.addressWidth
	l := Location{PEID: PEID{SIP: int(a >> (w.die + w.local)), Cube: int(a >> w.local & (1<<w.die - 1))}}
	local := int64(a & (1<<w.local - 1))
	window := local >> (w.local - windowBits)
	local &= 1<<(w.local-windowBits) - 1
	switch window {
	case hbmWindow:
		l.Space, l.PE, l.Offset = HBMSpace, int(local/t.HBMSlice()), local%t.HBMSlice()
	case sramWindow:
		l.Space, l.Offset = SRAMSpace, local
	case tcmWindow:
		bits := fieldBits(max(t.PE.TCMBytes, 2))
		l.Space, l.PE, l.Offset = TCMSpace, int(local>>bits), local&(1<<bits-1)
	}
	if back, err := t.Address(l); err != nil || back != a {
		return Location{}, fmt.Errorf("address %#x is not in a system of %d SIPs x %d cubes x %d PEs",
			uint64(a), t.SIPs.Count, t.Cubes.Count(), t.PEs())
	}
	return l, nil
}

// Channel returns the HBM pseudo-channel of an offset.
func (t *Topology) Channel(offset int64) int {
	return int(offset / int64(t.Cube.HBM.Burst) % int64(t.Cube.HBM.Channels))
}

// Piece returns the range of memory that a piece of a transfer accesses. The transfer begins at base and has bytes
// bytes. The piece begins off bytes later and has n bytes. The HBM moves whole bursts. A burst that belongs to two
// pieces is accessed only once: with the first piece in a read, with the last piece in a write.
func (h *HBM) Piece(base int64, bytes, off, n int, write bool) (from int64, length int) {
	burst := int64(h.Burst)
	from = base + int64(off)
	to := from + int64(n)
	switch {
	case write:
		from -= from % burst
		if off+n < bytes {
			to -= to % burst
		}
	case off > 0:
		from += (burst - from%burst) % burst
	}
	return from, int(max(0, to-from))
}
