package probe

import "math"

// CopyGBps is the copy bandwidth of so many cores together, each with a
// working set of so many bytes.
func (r Result) CopyGBps(cores int, bytes float64) float64 { return lookup(r.Copy, cores, bytes) }

// ReadGBps is the same for reading alone.
func (r Result) ReadGBps(cores int, bytes float64) float64 { return lookup(r.Read, cores, bytes) }

// ExchangeGBps is the rate at which each of so many cores sends private memory to others and
// receives theirs, all at once, each with a working set of so many bytes; 0 where that was not probed.
func (r Result) ExchangeGBps(cores int, bytes float64) float64 {
	if len(r.Exchange) == 0 {
		return 0
	}
	return lookup(r.Exchange, cores, bytes)
}

// Traffic is what some cores move together, in bytes.
type Traffic struct {
	Cores  int     // that move it, at the same time
	Set    float64 // bytes of memory that each of them touches
	Loads  float64 // bytes read, by all of them
	Stores float64 // bytes written
}

// TimeUS is the time in microseconds that the traffic needs at the probed
// bandwidths. A load costs what it does when reading; a store what a copy costs
// beyond its load. A kernel that copies needs exactly the copy's time, one that
// reads exactly the read's, and a reduction, with its two or more loads to a
// store, is in between.
func (r Result) TimeUS(t Traffic) float64 {
	perLoad := 1 / r.ReadGBps(t.Cores, t.Set)
	perStore := max(0, 2/r.CopyGBps(t.Cores, t.Set)-perLoad)
	return (t.Loads*perLoad + t.Stores*perStore) / 1e3
}

// ExchangeUS is the time in microseconds that so many cores need, all at once, for
// each to receive crossing bytes of another's private memory and to send as many,
// when each touches memory bytes of its own; 0 where that was not probed. What
// crosses is charged the rate between caches. The memory, which may be touched less
// often than bytes cross, is charged once, by what an exchange of sets that large
// costs beyond that rate.
func (r Result) ExchangeUS(cores int, crossing, memory float64) float64 {
	if len(r.Exchange) == 0 {
		return 0
	}
	fastest := lookup(r.Exchange, cores, 0)
	beyond := 1/lookup(r.Exchange, cores, memory) - 1/fastest
	return (crossing/fastest + memory/2*beyond) / 1e3
}

// lookup interpolates between the probed cells: over cores linearly, over
// sizes linearly in the logarithm. Outside the probed range the nearest end
// applies: a larger set is in memory like the largest, and more ranks than cores
// have no more bandwidth.
func lookup(cells []Cell, cores int, bytes float64) float64 {
	below, above := column(cells, cores)
	low := overSize(below, bytes)
	if len(above) == 0 || above[0].Cores == below[0].Cores {
		return low
	}
	share := float64(cores-below[0].Cores) / float64(above[0].Cores-below[0].Cores)
	return low + share*(overSize(above, bytes)-low)
}

// column gives the cells of the largest probed number of cores that is at most
// the wanted one, and of the next larger, if there is one. For fewer cores than
// any probed, the smallest number is used.
func column(cells []Cell, cores int) (below, above []Cell) {
	for len(cells) > 0 {
		n := 1
		for n < len(cells) && cells[n].Cores == cells[0].Cores {
			n++
		}
		if cells[0].Cores > cores && below != nil {
			return below, cells[:n]
		}
		below, cells = cells[:n], cells[n:]
		if below[0].Cores >= cores {
			break
		}
	}
	return below, nil
}

// overSize interpolates within the cells of one number of cores. A smaller set is at
// least as fast as a larger one, so a cell below a larger set's rate was disturbed
// and is raised to it.
func overSize(cells []Cell, bytes float64) float64 {
	var rate float64
	for i := len(cells) - 1; i >= 0; i-- {
		larger := rate
		rate = max(rate, cells[i].GBps)
		size := float64(cells[i].Bytes)
		switch {
		case bytes < size:
		case i == len(cells)-1:
			return rate
		default:
			share := math.Log(bytes/size) / math.Log(float64(cells[i+1].Bytes)/size)
			return rate + share*(larger-rate)
		}
	}
	return rate
}
