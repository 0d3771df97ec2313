package cuda

import (
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// packBytes is what a thread loads at once.
const packBytes = 16

// way is how an algorithm is done by kernels.
type way struct {
	kernel gpu.Algorithm
	// most is how many elements of a width one launch can do; nil: as many as there are.
	most func(e *engine, width int) int
	// apart: the input must not be the output.
	apart bool
	// own: the inputs are copied to this rank first, and nobody is met in the kernel.
	own bool
	// switched: the switch between the GPUs adds, in memory that has an address for all ranks.
	switched bool
	// bits are those of the integers that move, 0 where elements do.
	bits int
}

var ways = map[string]way{
	oneStage: {kernel: gpu.OneStage, apart: true},
	push:     {kernel: gpu.Push},
	twoStage: {kernel: gpu.Pull, most: func(e *engine, width int) int { return stageBytes * e.size / width }},
	lamport:  {kernel: gpu.Lamport, most: func(_ *engine, width int) int { return lamportBytes / width }},
	multimem: {kernel: gpu.Multimem, switched: true},
	naive: {kernel: gpu.OneStage, own: true, most: func(e *engine, width int) int {
		return 2 * stageBytes / e.size &^ 255 / width
	}},
}

// way is that of the call.
func (c *call) way() way { return wayOf(c.plan) }

func wayOf(p dist.Plan) way {
	if codec, encoded := p.Codec.(quant.Codec); encoded {
		return quantised[codec]
	}
	w, x := ways[p.Algorithm], p.Epilogue
	if x == nil || w.own {
		return w
	}
	if x.Norm != nil { // of rows that a block has as a whole
		return way{kernel: gpu.Norm, apart: true}
	}
	if w.kernel == gpu.Lamport {
		return w
	}
	if x.Bias.Count()+x.Residual.Count() > 0 {
		return ways[oneStage] // only a rank's own sum can have its own bias
	}
	if w.switched { // it gives sums that are rounded already
		return ways[push]
	}
	return w
}

// settlePiece chooses how many elements go at once.
func (c *call) settlePiece(w way) {
	width := c.plan.DType.Size()
	if !c.staged && !(w.apart && c.plan.InPlace) {
		c.piece = c.plan.Count
	}
	if w.most != nil {
		c.piece = min(c.piece, w.most(c.e, width))
	}
	if row := c.row(); row > 0 {
		c.piece -= c.piece % row
	}
}

// aligned refuses memory that kernels cannot work on.
func (c *call) aligned(spans ...span) error {
	for _, s := range spans {
		if !c.staged && s.off%packBytes != 0 {
			return fmt.Errorf("the buffer begins at byte %d of its memory: want a multiple of %d", s.off, packBytes)
		}
	}
	return nil
}

// allReduce prepares the kernel of the call's algorithm.
func (c *call) allReduce() error {
	e, p := c.e, c.plan
	w, width := c.way(), p.DType.Size()
	if c.settlePiece(w); c.piece == 0 && p.Count > 0 {
		return fmt.Errorf("rows of %d elements are too long for %s in one launch", c.row(), p.Algorithm)
	}
	ranks := e.size
	if w.own {
		ranks = gpu.Any
	}
	name, err := w.kernel.Kernel(p.DType, ranks)
	if err != nil {
		return err
	}
	var k *cuda.Kernel
	if err := e.device.Do(func() error { k, err = e.device.kernel(w.kernel, name, e.near()); return err }); err != nil {
		return &dist.UnavailableError{Err: err}
	}
	if err := c.parameters(); err != nil {
		return err
	}
	c.number, c.each = &e.epoch, 2
	scratch := span{allocation: e.scratch}
	c.params.SlotBytes = stageBytes
	bytes := min(c.piece, p.Count) * width
	if w.kernel == gpu.Lamport {
		c.number, c.each, scratch = &e.calls, 1, span{allocation: e.slots}
		c.params.SlotBytes = uint64(lamportSlot(e.size))
		bytes *= 2 // a thread has half a pack
	}
	if w.bits > 0 {
		c.params.SlotBytes = uint64(slotBytes(min(c.piece, p.Count), e.size, w.bits))
		bytes = bytes / width * 2 // a thread has eight elements of any type
	}
	if w.own {
		c.each = 0
		// There is nobody to meet, and rounding is as at the hops of the schedule.
		c.params.Options = gpu.DropStart | gpu.DropEnd | gpu.RoundEach
	}
	for r := range e.size {
		c.params.Scratch[r], c.params.Flags[r] = uint64(scratch.pointer(r)), uint64(e.flags.at[r])
	}
	if err := c.shape(k, bytes, w.kernel == gpu.Push || w.kernel == gpu.Pull || w.switched || w.bits > 0); err != nil {
		return err
	}
	c.work = func(c *call, first, count int) error { return c.pieces(w, first, count) }
	if c.row() > 0 && w.kernel != gpu.Norm {
		return c.prepareNorm()
	}
	return nil
}

// parameters are what all launches of the call have in common.
func (c *call) parameters() error {
	e, p := c.e, c.plan
	c.params = &gpu.Params{Failure: uint64(e.failure.Device), LimitNS: uint64(e.timeout), Scale: 1,
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
	return c.vectors(x)
}

// shape chooses blocks and threads for so many bytes, so that the blocks of all ranks
// that share the GPU are resident at once: they wait for each other. In a parted call
// each rank sums a part.
func (c *call) shape(k *cuda.Kernel, bytes int, parted bool) error {
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
	room := e.room(resident)
	if room == 0 {
		return fmt.Errorf("kernel %s: %d ranks share the GPU, whose %d multiprocessors run %d blocks each: there is no "+
			"room for all at once",
			k.Name, e.residents, e.device.multiprocessors, resident)
	}
	packs := (bytes + packBytes - 1) / packBytes
	if parted {
		packs = (packs + e.size - 1) / e.size // of this rank's part
	}
	blocks := max(1, min(room, maxBlocks, (packs+threads-1)/threads))
	asked := e.knobs.blocks
	if asked == 0 {
		if asked = c.plan.Blocks; c.plan.Tuned {
			asked = min(asked, room)
		}
	}
	if asked > min(room, maxBlocks) {
		return fmt.Errorf("%s=%d: with %d ranks on the GPU at most %d of each run at once", blocksKnob, asked, e.residents,
			min(room, maxBlocks))
	} else if asked > 0 {
		blocks = asked
	}
	c.params.Blocks = uint32(blocks)
	grid, cooperative := c.lead(blocks)
	c.launch = cuda.NewLaunch(k, grid, threads, 0, cooperative, c.params)
	return nil
}

// locals are the epilogue's vectors, each rank's own: bias, residual, weight of the norm.
func locals(x *dist.Epilogue) (list [3]dist.Buffer) {
	list[0], list[1] = x.Bias, x.Residual
	if x.Norm != nil {
		list[2] = x.Norm.Weight
	}
	return list
}

// vectors finds them on the device, or room for them.
func (c *call) vectors(x *dist.Epilogue) error {
	for i, b := range locals(x) {
		if b.Count() == 0 {
			continue
		}
		if s, there := c.e.spanOf(b); there {
			c.bias[i] = s
			continue
		}
		if b.Bytes() == nil {
			return errors.New("a vector of the epilogue is memory of another group")
		}
		err := c.e.device.Do(func() error {
			at, err := c.e.device.Alloc(len(b.Bytes()))
			a := &allocation{e: c.e, bytes: len(b.Bytes())}
			a.at[c.e.rank] = at
			c.e.vectors = append(c.e.vectors, at)
			c.bias[i], c.copied[i] = span{allocation: a}, true
			return err
		})
		if err != nil {
			return err
		}
	}
	if c.bias[0].allocation != nil {
		c.params.Bias, c.params.BiasCount = uint64(c.bias[0].pointer(c.e.rank)), uint64(x.Bias.Count())
	}
	if c.bias[2].allocation != nil {
		if c.bias[2].off%packBytes != 0 {
			return fmt.Errorf("the norm's weight begins at byte %d of its memory: want a multiple of %d", c.bias[2].off,
				packBytes)
		}
		c.params.Weight, c.params.Row, c.params.Epsilon = uint64(c.bias[2].pointer(c.e.rank)), uint64(c.row()), x.Norm.Epsilon
	}
	return nil
}

// copyVectors brings those of the program's own memory to the device.
func (c *call) copyVectors() error {
	if c.plan.Epilogue == nil {
		return nil
	}
	for i, b := range locals(c.plan.Epilogue) {
		if c.copied[i] {
			if err := c.e.device.Write(c.bias[i].pointer(c.e.rank), b.Bytes()); err != nil {
				return c.e.broken(c.label.Text(), err)
			}
		}
	}
	return nil
}

// pieces does the call in launches that fit. The ranks have met, and their buffers
// are known.
func (c *call) pieces(w way, first, count int) error {
	e, width := c.e, c.plan.DType.Size()
	if first == 0 {
		if err := c.copyVectors(); err != nil {
			return err
		}
	}
	for done := 0; done < count; {
		n := min(c.piece, count-done)
		if w.switched && !c.direct {
			n = min(n, stageBytes/width)
		}
		if err := c.gather(w, done*width, n*width); err != nil {
			return e.broken(c.label.Text(), err)
		}
		if w.own || e.knobs.asBlocks && w.apart && c.plan.InPlace { // an output may be an input that another still copies
			if err := c.wait(); err != nil {
				return err
			}
			if err := e.agreement.Check(copied); err != nil {
				return err
			}
		}
		c.params.Count, c.params.Base = uint64(n), uint64(first+done)
		if c.bias[1].allocation != nil {
			c.params.Residual = uint64(c.bias[1].pointer(e.rank)) + uint64((first+done)*width)
		}
		if err := c.start(); err != nil {
			return err
		}
		if err := c.fromSwitch(w, done*width, n*width); err != nil {
			return err
		}
		if err := c.normalise(); err != nil {
			return err
		}
		done += n
	}
	return nil
}

var copied = shm.NewLabel("the sums of a naive all-reduce")

// gather says where the kernel finds the inputs and outputs of this piece. Inputs that
// must be elsewhere are copied there first, in the order of the stream.
func (c *call) gather(w way, off, bytes int) error {
	e := c.e
	if w.switched {
		return c.toSwitch(off, bytes)
	}
	for r := range e.size {
		c.params.In[r] = uint64(c.peers[0][r]) + uint64(off)
		c.params.Out[r] = uint64(c.peers[1][r]) + uint64(off)
		if w.own {
			to := e.scratch.at[e.rank] + cuda.Pointer(r*(2*stageBytes/e.size&^255))
			if err := e.copy(to, cuda.Pointer(c.params.In[r]), bytes); err != nil {
				return err
			}
			c.params.In[r] = uint64(to)
		}
	}
	if w.apart && c.plan.InPlace && !c.staged {
		if err := e.stream.Copy(e.stage[0].at[e.rank], cuda.Pointer(c.params.In[e.rank]), bytes); err != nil {
			return err
		}
		for r := range e.size {
			c.params.In[r] = uint64(e.stage[0].at[r])
		}
	}
	return nil
}

// toSwitch says where the switch finds inputs and outputs: under one address for all ranks.
// Buffers that have none go through the stage, and so do those whose end is not that of a
// pack: the switch stores whole ones.
func (c *call) toSwitch(off, bytes int) error {
	e := c.e
	if c.direct {
		c.params.In[0], c.params.Out[0] = uint64(c.in.forAll())+uint64(off), uint64(c.out.forAll())+uint64(off)
		return nil
	}
	c.params.In[0], c.params.Out[0] = uint64(e.stage[0].multi.All), uint64(e.stage[1].multi.All)
	return e.stream.Copy(e.stage[0].at[e.rank], c.peers[0][e.rank]+cuda.Pointer(off), bytes)
}

// fromSwitch brings sums to the output that went through the stage.
func (c *call) fromSwitch(w way, off, bytes int) error {
	if !w.switched || c.direct {
		return nil
	}
	if err := c.e.stream.Copy(c.peers[1][c.e.rank]+cuda.Pointer(off), c.e.stage[1].at[c.e.rank], bytes); err != nil {
		return c.e.broken(c.label.Text(), err)
	}
	return c.wait()
}

// start starts the kernel and waits for its end.
func (c *call) start() error {
	c.count(1)
	if c.e.launches() {
		if err := c.launch.Start(c.e.stream); err != nil {
			return c.e.broken(c.label.Text(), err)
		}
	}
	return c.ended()
}

// count numbers the next launch, of so many calls.
func (c *call) count(calls uint32) {
	c.params.Iterations = calls
	c.params.Epoch = *c.number
	if c.each > 0 {
		*c.number += c.each - 1 + calls
	}
}

// stagedRun copies the program's own memory to the device and the result back, a
// piece at a time.
func (c *call) stagedRun() error {
	p, e := c.plan, c.e
	if p.Op != dist.AllReduce {
		return c.stagedOther()
	}
	for first := 0; first < p.Count; first += c.piece {
		n := min(c.piece, p.Count-first)
		if err := c.copyIn(e.stage[0].at[e.rank], p.In.Slice(first, n)); err != nil {
			return e.broken(c.label.Text(), err)
		}
		if err := c.meet(); err != nil {
			return err
		}
		if err := c.work(c, first, n); err != nil {
			return err
		}
		if err := c.copyOut(p.Out.Slice(first, n), e.stage[1].at[e.rank]); err != nil {
			return e.broken(c.label.Text(), err)
		}
	}
	return nil
}

// copyIn and copyOut move a buffer that the kernels do not work on itself: host
// memory, or device memory that is not aligned.
func (c *call) copyIn(to cuda.Pointer, b dist.Buffer) error {
	if s, there := c.e.spanOf(b); there {
		return errors.Join(c.e.stream.Copy(to, s.pointer(c.e.rank), b.Count()*b.DType().Size()), c.e.stream.Synchronize())
	}
	return c.e.device.Write(to, b.Bytes())
}

func (c *call) copyOut(b dist.Buffer, from cuda.Pointer) error {
	if s, there := c.e.spanOf(b); there {
		return errors.Join(c.e.stream.Copy(s.pointer(c.e.rank), from, b.Count()*b.DType().Size()), c.e.stream.Synchronize())
	}
	return c.e.device.Read(b.Bytes(), from)
}
