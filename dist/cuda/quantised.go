package cuda

import (
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// codecVariants are the variants of the codecs for which there are kernels.
var codecVariants = map[quant.Codec]variant{
	quant.Int8: {kernel: gpu.Quickreduce8, bits: 8, maxElements: maxEncoded},
	quant.Int6: {kernel: gpu.Quickreduce6, bits: 6, maxElements: maxEncoded},
	quant.Int4: {kernel: gpu.Quickreduce4, bits: 4, maxElements: maxEncoded},
}

func codecs() []dist.Codec {
	return lists.Map(quant.Codecs(), func(c quant.Codec) dist.Codec { return c })
}

// encodedScratch is the size in bytes of the scratch memory for encodings. Tests change it.
var encodedScratch = 2 * stageBytes

// maxEncoded returns how many elements one launch can encode. Scratch memory holds the encodings of the
// inputs and of the sums; each takes at most nine bytes for eight elements. The number is a multiple of
// quant.Group, so that a vector that goes in pieces has the same groups, and so the same bits, as in one
// piece.
func maxEncoded(*engine, int) int { return encodedScratch / 8 * 3 &^ (quant.Group - 1) }

// slotBytes returns the size of one rank's encoded part, rounded up to cache lines: for each group a
// 4-byte scale and its integers.
func slotBytes(count, ranks, bits int) int {
	const line = 128
	groups := (count + quant.Group - 1) / quant.Group
	part := (groups + ranks - 1) / ranks * (4 + quant.Group*bits/8)
	return (part + line - 1) / line * line
}

// faultDelay is how late the last rank arrives when a barrier is dropped: long enough that the other
// ranks always read too early, and the fault is never hidden by chance.
const faultDelay = 50e6 // ns

// Plant injects a fault into the kernels of all all-reduces that are prepared from now on, so that tests
// can show that the fault is found. "" ends that.
func (e *engine) Plant(fault string) error {
	e.fault = fault
	return nil
}

// injectFault sets the kernel's parameters for the fault. It returns instrument.ErrNoSuchFault if the
// variant cannot have it.
func (c *call) injectFault() error {
	switch {
	case c.e.fault == "":
	case c.e.size == 1:
		return fmt.Errorf("%w: a single rank does not depend on others", instrument.ErrNoSuchFault)
	case c.e.fault == instrument.DroppedBarrier && c.variant().copiesInputs:
		return fmt.Errorf("%w: the kernel of %s has no barrier", instrument.ErrNoSuchFault, c.plan.Algorithm)
	case c.e.fault == instrument.WrongSlot && c.variant().inSwitch:
		return fmt.Errorf("%w: the switch adds all inputs, and has no slots to confuse", instrument.ErrNoSuchFault)
	case c.e.fault == instrument.DroppedBarrier:
		c.params.Options |= gpu.DropEnd
		c.params.DelayNS, c.params.DelayRank = faultDelay, uint32(c.e.size-1)
	case c.e.fault == instrument.SkippedTail:
		c.params.Options |= gpu.SkipTail
	case c.e.fault == instrument.WrongSlot:
		c.params.Options |= gpu.WrongSlot
	}
	return nil
}
