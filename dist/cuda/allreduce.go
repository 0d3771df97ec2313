package cuda

import (
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// packBytes is the size of a pack: the bytes that a thread loads with one instruction.
const packBytes = 16

// variant describes how the kernels implement an algorithm.
type variant struct {
	kernel gpu.Algorithm
	// maxElements returns how many elements of width bytes one launch can process; nil means all.
	maxElements func(e *engine, width int) int
	// outOfPlace: the kernel needs different buffers for input and output.
	outOfPlace bool
	// copiesInputs: all inputs are copied to this rank before the launch, and the kernel does not
	// synchronize with other ranks.
	copiesInputs bool
	// inSwitch: the switch between the GPUs adds, in multicast memory.
	inSwitch bool
	// bits is the width of the encoded integers, or 0 if the kernel moves the elements themselves.
	bits int
}

var variants = map[string]variant{
	oneStage:     {kernel: gpu.OneStage, outOfPlace: true},
	twoStagePush: {kernel: gpu.Push},
	twoStage:     {kernel: gpu.Pull, maxElements: func(e *engine, width int) int { return stageBytes * e.size / width }},
	lamport:      {kernel: gpu.Lamport, maxElements: func(_ *engine, width int) int { return lamportBytes / width }},
	multimem:     {kernel: gpu.Multimem, inSwitch: true},
	naive: {kernel: gpu.OneStage, copiesInputs: true,
		maxElements: func(e *engine, width int) int { return e.inputRoom() / width }},
}

// inputRoom returns how many bytes of scratch memory each rank's input gets when all inputs are copied
// to this rank. It is a multiple of 256, which keeps every input aligned.
func (e *engine) inputRoom() int { return 2 * stageBytes / e.size &^ 255 }

func (c *call) variant() variant { return variantOf(c.plan) }

// variantOf returns the variant that implements a plan. Epilogues that the algorithm's own kernel cannot
// apply are given to another kernel.
func variantOf(p dist.Plan) variant {
	if codec, encoded := p.Codec.(quant.Codec); encoded {
		return codecVariants[codec]
	}
	v, x := variants[p.Algorithm], p.Epilogue
	switch {
	case x == nil || v.copiesInputs:
		return v
	case x.Norm != nil: // needs complete rows in one block
		return variant{kernel: gpu.Norm, outOfPlace: true}
	case v.kernel == gpu.Lamport:
		return v
	case x.Bias.Count()+x.Residual.Count() > 0: // differ between ranks, so each rank computes all its sums
		return variants[oneStage]
	case v.inSwitch: // the switch returns sums that are already rounded
		return variants[twoStagePush]
	}
	return v
}

// choosePiece sets how many elements one launch processes.
func (c *call) choosePiece(v variant) {
	if !c.staged && !(v.outOfPlace && c.plan.InPlace) {
		c.piece = c.plan.Count
	}
	if v.maxElements != nil {
		c.piece = min(c.piece, v.maxElements(c.e, c.plan.DType.Size()))
	}
	if row := c.row(); row > 0 {
		c.piece -= c.piece % row
	}
}

// checkAligned returns an error if a buffer does not begin at a pack boundary, as kernels need it.
func (c *call) checkAligned(spans ...span) error {
	for _, s := range spans {
		if !c.staged && s.off%packBytes != 0 {
			return fmt.Errorf("the buffer begins at byte %d of its memory: want a multiple of %d", s.off, packBytes)
		}
	}
	return nil
}

// prepareAllReduce finds the kernel of the call's variant and sets its parameters and grid.
func (c *call) prepareAllReduce() error {
	e, p := c.e, c.plan
	v, width := c.variant(), p.DType.Size()
	if c.choosePiece(v); c.piece == 0 && p.Count > 0 {
		return fmt.Errorf("rows of %d elements are too long for %s in one launch", c.row(), p.Algorithm)
	}
	ranks := e.size
	if v.copiesInputs {
		ranks = gpu.Any
	}
	name, err := v.kernel.Kernel(p.DType, ranks)
	if err != nil {
		return err
	}
	k, err := e.device.kernel(v.kernel, name, e.flagsOnOneGPU())
	if err != nil {
		return &dist.UnavailableError{Err: err}
	}
	if err := c.setParams(); err != nil {
		return err
	}
	c.epoch, c.epochStep = &e.flagEpoch, 2
	scratch := e.scratch
	c.params.SlotBytes = stageBytes
	elements := min(c.piece, p.Count)
	bytes := elements * width
	switch {
	case v.kernel == gpu.Lamport:
		c.epoch, c.epochStep, scratch = &e.lamportCalls, 1, e.lamportSlots
		c.params.SlotBytes = uint64(lamportSlot(e.size))
		bytes *= 2 // a thread processes half a pack
	case v.bits > 0:
		c.params.SlotBytes = uint64(slotBytes(elements, e.size, v.bits))
		bytes = elements * 2 // a thread processes eight elements, whatever their type
	case v.copiesInputs:
		c.epochStep = 0
		// No barriers, because the inputs are local. Round after every addition, like the hops of
		// the schedule that the naive algorithm stands for.
		c.params.Options = gpu.DropStart | gpu.DropEnd | gpu.RoundEach
	}
	for r := range e.size {
		c.params.Scratch[r], c.params.Flags[r] = uint64(scratch.addr[r]), uint64(e.flags.addr[r])
	}
	partitioned := v.kernel == gpu.Push || v.kernel == gpu.Pull || v.inSwitch || v.bits > 0
	if err := c.chooseGrid(k, bytes, partitioned); err != nil {
		return err
	}
	c.work = func(first, count int) error { return c.runPieces(v, first, count) }
	if c.row() > 0 && v.kernel != gpu.Norm {
		return c.prepareNorm()
	}
	return nil
}

// setParams sets the parameters that all launches of the call have in common.
func (c *call) setParams() error {
	e, p := c.e, c.plan
	c.params = &gpu.Params{Failure: uint64(e.failure.Device), LimitNS: uint64(e.Timeout), Scale: 1,
		Rank: uint32(e.rank), Size: uint32(e.size), Iterations: 1, Rotation: 1}
	if p.Reduction == dist.Avg {
		c.params.Scale = 1 / float64(e.size)
	}
	x := p.Epilogue
	if x == nil {
		return nil
	}
	if x.Scale != 0 {
		c.params.Scale *= x.Scale
	}
	return c.placeVectors(x)
}

// chooseGrid chooses blocks and threads for a launch that processes the given bytes. Blocks wait for
// blocks of other ranks, so the blocks of all ranks that share the GPU must be resident at once. If
// partitioned, each rank sums only its part.
func (c *call) chooseGrid(k *cuda.Kernel, bytes int, partitioned bool) error {
	e := c.e
	threads := 512
	if bytes <= 64<<10 {
		threads = 256
	}
	resident := 0
	err := e.device.Do(func() (err error) { resident, err = k.Resident(threads, 0); return err })
	if err != nil {
		return err
	}
	room := e.maxBlocksAtOnce(resident)
	if room == 0 {
		return fmt.Errorf("kernel %s: the blocks of all %d ranks on the GPU must run at once, and its %d multiprocessors "+
			"run only %d blocks each", k.Name, e.residentRanks, e.device.multiprocessors, resident)
	}
	packs := (bytes + packBytes - 1) / packBytes
	if partitioned {
		packs = (packs + e.size - 1) / e.size
	}
	blocks := max(1, min(room, maxBlocks, (packs+threads-1)/threads))
	requested := e.knobs.blocks
	if requested == 0 {
		if requested = c.plan.Blocks; c.plan.Tuned {
			requested = min(requested, room) // a tuning table may have been made with fewer ranks on the GPU
		}
	}
	if requested > min(room, maxBlocks) {
		return fmt.Errorf("%s=%d: with %d ranks on the GPU at most %d of each run at once", blocksKnob, requested,
			e.residentRanks, min(room, maxBlocks))
	} else if requested > 0 {
		blocks = requested
	}
	c.params.Blocks = uint32(blocks)
	grid, cooperative := c.gridOf(blocks)
	c.launch = cuda.NewLaunch(k, grid, threads, 0, cooperative, c.params)
	return nil
}

// The vectors of an epilogue, as indices of call.vectors. They belong to each rank alone.
const (
	biasVector = iota
	residualVector
	weightVector // of the norm
)

func epilogueVectors(x *dist.Epilogue) (list [3]dist.Buffer) {
	list[biasVector], list[residualVector] = x.Bias, x.Residual
	if x.Norm != nil {
		list[weightVector] = x.Norm.Weight
	}
	return list
}

// placeVectors sets where the epilogue's vectors are on the device. It allocates device memory for
// those in host memory, which uploadVectors then copies at every run.
func (c *call) placeVectors(x *dist.Epilogue) error {
	for i, b := range epilogueVectors(x) {
		if b.Count() == 0 {
			continue
		}
		if s, ours := c.e.findSpan(b); ours {
			c.vectors[i] = s
			continue
		}
		if b.Bytes() == nil {
			return errors.New("a vector of the epilogue is memory of another group")
		}
		err := c.e.device.Do(func() error {
			addr, err := c.e.device.Alloc(len(b.Bytes()))
			a := &allocation{e: c.e, bytes: len(b.Bytes())}
			a.addr[c.e.rank] = addr
			if err == nil {
				c.vectors[i], c.onHost[i], c.e.vectorCopies[c] = span{allocation: a}, true, true
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if bias := c.vectors[biasVector]; bias.allocation != nil {
		c.params.Bias, c.params.BiasCount = uint64(bias.pointer(c.e.rank)), uint64(x.Bias.Count())
	}
	if weight := c.vectors[weightVector]; weight.allocation != nil {
		if weight.off%packBytes != 0 {
			return fmt.Errorf("the norm's weight begins at byte %d of its memory: want a multiple of %d", weight.off, packBytes)
		}
		c.params.Weight, c.params.Row = uint64(weight.pointer(c.e.rank)), uint64(c.row())
		c.params.Epsilon = x.Norm.Epsilon
	}
	return nil
}

// release frees what the call holds on the device.
func (c *call) release() error { return c.e.device.Do(c.freeVectors) }

// freeVectors frees the copies that placeVectors has allocated.
func (c *call) freeVectors() error {
	delete(c.e.vectorCopies, c)
	var faults []error
	for i, v := range c.vectors {
		if c.onHost[i] {
			faults = append(faults, c.e.device.Free(v.pointer(c.e.rank)))
			c.onHost[i] = false
		}
	}
	return errors.Join(faults...)
}

// uploadVectors copies the epilogue's vectors from host memory to the device.
func (c *call) uploadVectors() error {
	if c.plan.Epilogue == nil {
		return nil
	}
	for i, b := range epilogueVectors(c.plan.Epilogue) {
		if c.onHost[i] {
			if err := c.e.device.Write(c.vectors[i].pointer(c.e.rank), b.Bytes()); err != nil {
				return c.fail(err)
			}
		}
	}
	return nil
}

// setRange sets which elements the next launch processes: count elements from first on. The inputs and
// outputs are set separately, because they may be copies.
func (c *call) setRange(first, count int) {
	c.params.Count, c.params.Base = uint64(count), uint64(first)
	if residual := c.vectors[residualVector]; residual.allocation != nil {
		c.params.Residual = uint64(residual.pointer(c.e.rank)) + uint64(first*c.plan.DType.Size())
	}
}

// runPieces processes count elements from first on, in as many launches as needed. The ranks have
// exchanged the addresses of their buffers before.
func (c *call) runPieces(v variant, first, count int) error {
	e, width := c.e, c.plan.DType.Size()
	if first == 0 {
		if err := c.uploadVectors(); err != nil {
			return err
		}
	}
	for done := 0; done < count; {
		n := min(c.piece, count-done)
		if v.inSwitch && !c.direct {
			n = min(n, stageBytes/width)
		}
		if err := c.setBuffers(v, done*width, n*width); err != nil {
			return c.fail(err)
		}
		// An output may be an input that another rank still copies.
		if v.copiesInputs || e.knobs.asBlocks && v.outOfPlace && c.plan.InPlace {
			if err := c.wait(); err != nil {
				return err
			}
			if err := e.Checker.Check(inputsCopied); err != nil {
				return err
			}
		}
		c.setRange(first+done, n)
		if err := c.launchAndWait(); err != nil {
			return err
		}
		if err := c.copyFromStage(v, done*width, n*width); err != nil {
			return err
		}
		if err := c.normalise(); err != nil {
			return err
		}
		done += n
	}
	return nil
}

var inputsCopied = shm.NewLabel("the sums of a naive all-reduce")

// setBuffers sets where the kernel finds the inputs and outputs of a piece, which begins at byte off.
// Inputs that the kernel needs elsewhere are copied there on the stream.
func (c *call) setBuffers(v variant, off, bytes int) error {
	e := c.e
	if v.inSwitch {
		return c.setSwitchBuffers(off, bytes)
	}
	for r := range e.size {
		c.params.In[r] = uint64(c.peers[0][r]) + uint64(off)
		c.params.Out[r] = uint64(c.peers[1][r]) + uint64(off)
		if v.copiesInputs {
			to := e.scratch.addr[e.rank] + cuda.Pointer(r*e.inputRoom())
			if err := e.copy(to, cuda.Pointer(c.params.In[r]), bytes); err != nil {
				return err
			}
			c.params.In[r] = uint64(to)
		}
	}
	if v.outOfPlace && c.plan.InPlace && !c.staged {
		if err := e.stream.Copy(e.stage[0].addr[e.rank], cuda.Pointer(c.params.In[e.rank]), bytes); err != nil {
			return err
		}
		for r := range e.size {
			c.params.In[r] = uint64(e.stage[0].addr[r])
		}
	}
	return nil
}

// setSwitchBuffers sets the multicast addresses of input and output. Buffers without one are copied to
// the stage, which has one. So are buffers that do not end at a pack boundary, because the switch
// stores whole packs.
func (c *call) setSwitchBuffers(off, bytes int) error {
	e := c.e
	if c.direct {
		c.params.In[0] = uint64(c.in.multicastPointer()) + uint64(off)
		c.params.Out[0] = uint64(c.out.multicastPointer()) + uint64(off)
		return nil
	}
	c.params.In[0], c.params.Out[0] = uint64(e.stage[0].multicast.Multicast), uint64(e.stage[1].multicast.Multicast)
	return e.stream.Copy(e.stage[0].addr[e.rank], c.peers[0][e.rank]+cuda.Pointer(off), bytes)
}

// copyFromStage copies sums that the switch left in the stage to the output.
func (c *call) copyFromStage(v variant, off, bytes int) error {
	if !v.inSwitch || c.direct {
		return nil
	}
	if err := c.e.stream.Copy(c.peers[1][c.e.rank]+cuda.Pointer(off), c.e.stage[1].addr[c.e.rank], bytes); err != nil {
		return c.fail(err)
	}
	return c.wait()
}

// launchAndWait launches the kernel and waits for its end.
func (c *call) launchAndWait() error {
	c.advanceEpoch(1)
	if c.e.launches() {
		if err := c.launch.Start(c.e.stream); err != nil {
			return c.fail(err)
		}
	}
	return c.awaitLaunch()
}

// advanceEpoch sets the epoch of the next launch, which performs the given number of calls.
func (c *call) advanceEpoch(calls uint32) {
	c.params.Iterations = calls
	c.params.Epoch = *c.epoch
	if c.epochStep > 0 {
		*c.epoch += c.epochStep - 1 + calls
	}
}

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
