package cuda

import (
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// quantised are the ways of the codecs that have kernels.
var quantised = map[quant.Codec]way{
	quant.Int8: {kernel: gpu.Quickreduce8, bits: 8, most: mostEncoded},
	quant.Int6: {kernel: gpu.Quickreduce6, bits: 6, most: mostEncoded},
	quant.Int4: {kernel: gpu.Quickreduce4, bits: 4, most: mostEncoded},
}

func codecs() []dist.Codec {
	return lists.Map(quant.Codecs(), func(c quant.Codec) dist.Codec { return c })
}

// encodedRoom is the scratch memory for encodings. It is a variable for tests.
var encodedRoom = 2 * stageBytes

// mostEncoded is how many elements fit into scratch memory twice, as inputs and as sums:
// whole groups, which take at most nine bytes for eight elements. More go in pieces, the
// groups of which are those of the whole vector, so that the bits are the same.
func mostEncoded(*engine, int) int { return encodedRoom / 8 * 3 &^ (quant.Group - 1) }

// slotBytes is the room for the encoding of one rank's part, in whole lines of the cache.
func slotBytes(count, ranks, bits int) int {
	const line = 128
	groups := (count + quant.Group - 1) / quant.Group
	part := (groups + ranks - 1) / ranks * (4 + quant.Group*bits/8)
	return (part + line - 1) / line * line
}

// lateness is how late the last rank is where a barrier has been dropped: long after the
// others have gone on, so that no luck hides it.
const lateness = 50e6 // ns

// Plant makes the kernels of the all-reduces that are prepared from now on wrong.
func (e *engine) Plant(fault string) error {
	e.fault = fault
	return nil
}

// sabotage plants the fault into the kernel's parameters.
func (c *call) sabotage() error {
	switch {
	case c.e.fault == "":
	case c.e.size == 1:
		return fmt.Errorf("%w: a single rank has nobody to go wrong with", instrument.ErrNoSuchFault)
	case c.e.fault == instrument.DroppedBarrier && c.way().own:
		return fmt.Errorf("%w: the kernel of %s meets nobody", instrument.ErrNoSuchFault, c.plan.Algorithm)
	case c.e.fault == instrument.WrongSlot && c.way().switched:
		return fmt.Errorf("%w: the switch adds what all have, and takes nothing for anybody's", instrument.ErrNoSuchFault)
	case c.e.fault == instrument.DroppedBarrier:
		c.params.Options |= gpu.DropEnd
		c.params.DelayNS, c.params.DelayRank = lateness, uint32(c.e.size-1)
	case c.e.fault == instrument.SkippedTail:
		c.params.Options |= gpu.SkipTail
	case c.e.fault == instrument.WrongSlot:
		c.params.Options |= gpu.WrongSlot
	}
	return nil
}
