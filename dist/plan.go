package dist

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/tuning"
)

// Plan is a checked call with all options resolved. It is the input of [Engine].Prepare.
type Plan struct {
	Call
	DType   DType // of both buffers; U8 for a barrier
	InPlace bool  // In and Out are the same memory: the shorter one is this rank's block of the longer one
	Steps   bool  // execute the steps of the schedule, not the backend's own code
	Blocks  int   // number of thread blocks per rank on a GPU; 0: the backend decides
	Tuned   bool  // the tuning table chose Blocks, so the backend may use fewer if they do not fit
}

// String returns the name of the call in errors, such as "allreduce of 8 f32 (sum)".
func (p Plan) String() string {
	if p.Op == Barrier {
		return "barrier"
	}
	s := fmt.Sprintf("%s of %d %v", p.Op, p.Count, p.DType)
	by := p.Reduction.String()
	switch {
	case p.Op.Reduces() && p.Op.Rooted():
		s += fmt.Sprintf(" (%s, root %d)", by, p.Root)
	case p.Op.Reduces():
		s += fmt.Sprintf(" (%s)", by)
	case p.Op.Rooted():
		s += fmt.Sprintf(" (root %d)", p.Root)
	case p.Op == Send:
		s += fmt.Sprintf(" to rank %d", p.Peer)
	case p.Op == Recv:
		s += fmt.Sprintf(" from rank %d", p.Peer)
	}
	if p.Counts != nil {
		s += fmt.Sprintf(" in blocks of %v", p.Counts)
	}
	if e := p.Epilogue; e != nil && e.Scale != 0 && e.Scale != 1 { // bias and residual are local
		s += fmt.Sprintf(" times %v", e.Scale)
	}
	return s
}

// Terms returns everything that the ranks of a call must agree on, for backends that compare calls.
func (p Plan) Terms() string {
	s := p.String()
	if p.Algorithm != "" {
		s += " by " + p.Algorithm
	}
	if p.Steps {
		s += " in steps"
	}
	if p.Chunk > 0 {
		s += fmt.Sprintf(" in pieces of %d", p.Chunk)
	}
	if p.Blocks > 0 {
		s += fmt.Sprintf(" by %d blocks", p.Blocks)
	}
	if p.Codec != nil {
		s += " encoded as " + p.Codec.Name()
	}
	return s
}

// plan checks a call as far as this rank can, and fills in the type, the count and the algorithm if they are not set.
func (g *Group) plan(c Call) (Plan, error) {
	p := Plan{Call: c}
	caps := g.caps
	if !caps.Can(c.Op) {
		if !slices.Contains(Collectives(), c.Op) {
			return p, suggest.Unknown("operation", string(c.Op), lists.Map(Collectives(), func(c Collective) string {
				return string(c)
			}))
		}
		return p, fmt.Errorf("backend %s has no %s", g.backend, c.Op)
	}
	if err := p.setType(caps); err != nil {
		return p, fmt.Errorf("%s: %w", c.Op, err)
	}
	if err := p.setCounts(caps, g); err != nil {
		return p, fmt.Errorf("%s: %w", c.Op, err)
	}
	p.setCount(g.Size())
	if err := p.checkBuffers(g.Rank(), g.Size()); err != nil {
		return p, fmt.Errorf("%v: %w", p, err)
	}
	if err := p.checkOptions(caps, g.backend); err != nil {
		return p, fmt.Errorf("%v: %w", p, err)
	}
	if err := p.setAlgorithm(g, caps); err != nil {
		return p, fmt.Errorf("%v: %w", p, err)
	}
	return p, nil
}

func (p *Plan) setType(caps Capabilities) error {
	in, out := p.In.DType(), p.Out.DType()
	switch {
	case p.In.Count() > 0 && p.Out.Count() > 0 && in != out:
		return fmt.Errorf("in is %v and out is %v: they must be of one type", in, out)
	case out.Valid() && (p.Out.Count() > 0 || !in.Valid()):
		p.DType = out
	case in.Valid():
		p.DType = in
	default:
		p.DType = U8 // there are no elements, so the type does not matter
	}
	if p.Op != Barrier && !slices.Contains(caps.DTypes, p.DType) {
		return fmt.Errorf("no support for %v", p.DType)
	}
	if p.Op.Reduces() && !slices.Contains(caps.Reductions, p.Reduction) {
		return fmt.Errorf("no support for %v", p.Reduction)
	}
	return nil
}

// setCounts checks the lengths of blocks. For an all-to-all, it expands the list to size*size entries.
func (p *Plan) setCounts(caps Capabilities, g *Group) error {
	if p.Counts == nil {
		return nil
	}
	size, want := g.Size(), fmt.Sprint(g.Size())
	p.Counts = slices.Clone(p.Counts) // the caller may change its list before the call runs
	switch {
	case !p.Op.blocks():
		return errors.New("only all-gather, gather, scatter, reduce-scatter and all-to-all have counts")
	case !caps.Has(UnevenBlocks):
		return fmt.Errorf("backend %s supports no counts of blocks", g.backend)
	case p.Op == AllToAll:
		if len(p.Counts) == size {
			p.Counts = slices.Repeat(p.Counts, size)
		}
		size, want = size*size, fmt.Sprintf("%d or %d", size, size*size)
	}
	if len(p.Counts) != size {
		return fmt.Errorf("%d counts, want %s", len(p.Counts), want)
	}
	total := 0
	for _, n := range p.Counts {
		if n < 0 {
			return fmt.Errorf("counts are %v, want 0 or more", p.Counts)
		}
		total += n
	}
	if p.Count != 0 && p.Count != total {
		return fmt.Errorf("count is %d, but the counts %v make %d", p.Count, p.Counts, total)
	}
	p.Count = total
	return nil
}

// Params returns the parameters of a schedule for the call among size ranks. Their method Block returns the part of the
// vector that belongs to a rank. Pair returns the part that goes from one rank to another in an all-to-all.
func (p *Plan) Params(size int) schedule.Params {
	s := schedule.Params{Ranks: size, Count: p.Count, Root: p.Root, InPlace: p.InPlace}
	if p.Counts != nil {
		s.Blocks = schedule.NewBlocks(p.Counts)
	}
	return s
}

// setCount derives the count of the whole vector from the buffers.
func (p *Plan) setCount(size int) {
	if p.Count != 0 || p.Counts != nil {
		return
	}
	switch p.Op {
	case AllReduce, ReduceScatter, Reduce, AllToAll, Send:
		p.Count = p.In.Count()
	case AllGather, Broadcast, Recv:
		p.Count = p.Out.Count()
	case Gather:
		p.Count = p.In.Count() * size
		if p.Out.Count() > 0 {
			p.Count = p.Out.Count()
		}
	case Scatter:
		p.Count = p.Out.Count() * size
		if p.In.Count() > 0 {
			p.Count = p.In.Count()
		}
	}
}

// bufferLens returns the number of elements that the buffers of a rank must have.
func (p *Plan) bufferLens(rank, size int) (in, out int) {
	switch p.Op {
	case Send:
		return p.Count, 0
	case Recv:
		return 0, p.Count
	}
	s, op := p.Params(size), string(p.Op)
	return s.Len(op, schedule.Input, rank), s.Len(op, schedule.Output, rank)
}

// checkBuffers checks root, peer and the lengths of the buffers. It trims longer buffers to the elements that the call
// uses.
func (p *Plan) checkBuffers(rank, size int) error {
	var faults []error
	if p.Count < 0 {
		return fmt.Errorf("count is %d, want 0 or more", p.Count)
	}
	if p.Op.Rooted() && (p.Root < 0 || p.Root >= size) {
		faults = append(faults, fmt.Errorf("root is %d, want a rank from 0 to %d", p.Root, size-1))
	}
	if p.Op.PointToPoint() && (p.Peer < 0 || p.Peer >= size || p.Peer == rank) {
		faults = append(faults, fmt.Errorf("peer is %d, want another rank from 0 to %d", p.Peer, size-1))
	}
	in, out := p.bufferLens(rank, size)
	if p.In.Count() < in {
		faults = append(faults, fmt.Errorf("in has %d elements, rank %d of %d needs %d", p.In.Count(), rank, size, in))
	}
	if p.Out.Count() < out {
		faults = append(faults, fmt.Errorf("out has %d elements, rank %d of %d needs %d", p.Out.Count(), rank, size, out))
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	p.In, p.Out = p.In.Slice(0, in), p.Out.Slice(0, out)
	return p.setInPlace(rank, size)
}

// setInPlace detects whether In and Out are the same memory. It refuses any other overlap.
func (p *Plan) setInPlace(rank, size int) error {
	distance, overlap := p.In.distance(p.Out)
	if !overlap {
		return nil
	}
	if p.Op == AllToAll {
		return errors.New("in and out overlap: an all-to-all cannot be in place")
	}
	s, op := p.Params(size), string(p.Op)
	want := (s.Shift(op, schedule.Input, rank) - s.Shift(op, schedule.Output, rank)) * p.DType.Size()
	if distance != want {
		return fmt.Errorf("in and out overlap, in starts %d bytes after out: "+
			"in place it must be %d, otherwise they must not overlap", distance, want)
	}
	p.InPlace = true
	return nil
}

func (p *Plan) checkOptions(caps Capabilities, backend string) error {
	if p.Chunk < 0 {
		return fmt.Errorf("chunk is %d elements, want 0 (the default) or more", p.Chunk)
	}
	if p.Codec != nil && (!caps.Takes(p.Codec) || p.Op != AllReduce) {
		return errors.New("only an all-reduce may have a codec, on a backend that supports it")
	}
	if c, ok := p.Codec.(interface{ Supports(DType) bool }); ok && !c.Supports(p.DType) {
		return fmt.Errorf("codec %s cannot encode %v", p.Codec.Name(), p.DType)
	}
	e := p.Epilogue
	if e == nil {
		return nil
	}
	out := p.Out.Count()
	switch {
	case !caps.Has(FusedEpilogue):
		return fmt.Errorf("backend %s has no epilogue", backend)
	case !p.DType.Float():
		return fmt.Errorf("an epilogue needs a floating-point type, not %v", p.DType)
	case e.Bias.Count() > 0 && (e.Bias.DType() != p.DType || out%e.Bias.Count() != 0):
		return fmt.Errorf("bias is %v: want %v, and a length that divides the output's %d", e.Bias, p.DType, out)
	case e.Residual.Count() > 0 && (e.Residual.DType() != p.DType || e.Residual.Count() != out):
		return fmt.Errorf("residual is %v: want %d %v as in the output", e.Residual, out, p.DType)
	}
	return p.checkNorm(caps, backend)
}

func (p *Plan) checkNorm(caps Capabilities, backend string) error {
	n := p.Epilogue.Norm
	if n == nil {
		return nil
	}
	out := p.Out.Count()
	switch {
	case p.Op != AllReduce:
		return fmt.Errorf("only an all-reduce may have a norm, not %s", p.Op)
	case p.DType != F32 && p.DType != F16 && p.DType != BF16:
		return fmt.Errorf("a norm needs f32, f16 or bf16, not %v", p.DType)
	case n.Weight.Count() == 0 || n.Weight.DType() != p.DType || out%n.Weight.Count() != 0:
		return fmt.Errorf("the norm's weight is %v: want %v, and a length that divides the output's %d", n.Weight, p.DType,
			out)
	case !(n.Epsilon >= 0) || n.Epsilon > math.MaxFloat32:
		return fmt.Errorf("the norm's epsilon is %v, want 0 or more", n.Epsilon)
	case !caps.Has(FusedNorm) && (out > 0 && p.Out.Bytes() == nil || n.Weight.Bytes() == nil):
		return fmt.Errorf("backend %s cannot apply a norm in memory that the host cannot reach", backend)
	}
	return nil
}

// hostNorm reports whether package dist must apply the norm of the call, because the backend cannot.
func (p *Plan) hostNorm(caps Capabilities) bool {
	return p.Epilogue != nil && p.Epilogue.Norm != nil && !caps.Has(FusedNorm)
}

const auto = "auto"

// setAlgorithm splits the name of the algorithm into its parts. If the caller has not chosen an algorithm, it takes the
// choice of the tuning table, or the backend's first algorithm if this group does not have that one.
func (p *Plan) setAlgorithm(g *Group, caps Capabilities) error {
	known := caps.Algorithms[p.Op]
	if err := p.parseAlgorithm(g.backend, caps); err != nil {
		return err
	}
	if p.Algorithm == "" || p.Algorithm == auto {
		choice := g.tuning.Choose(g.backend, string(p.Op), g.Size(), p.DType, p.bytes(), p.symmetric())
		p.Algorithm = choice.Algorithm
		if p.Chunk == 0 {
			p.Chunk = choice.ChunkBytes / p.DType.Size()
		}
		if p.Blocks == 0 && caps.Has(ThreadBlocks) {
			p.Blocks, p.Tuned = choice.Blocks, choice.Blocks > 0
		}
		if !slices.Contains(known, p.Algorithm) {
			p.Algorithm, p.Blocks, p.Tuned = "", 0, false
			if len(known) > 0 {
				p.Algorithm = known[0]
			}
		}
	}
	if p.Steps && !caps.Has(ScheduleSteps) {
		return fmt.Errorf("backend %s cannot execute the steps of schedules, only its own code", g.backend)
	}
	if p.Algorithm != "" && !slices.Contains(known, p.Algorithm) {
		if err := checkSize(p.Op, p.Algorithm, g.Size()); err != nil {
			return err
		}
		if why := caps.Missing[p.Algorithm]; why != "" {
			return fmt.Errorf("no %s: %s", p.Algorithm, why)
		}
		return suggest.Unknown(string(p.Op)+" algorithm", p.Algorithm, append(slices.Clone(known), auto))
	}
	return nil
}

// parseAlgorithm moves the parameters in the name of the algorithm, such as the piece length of "ring@64K", to their
// fields.
func (p *Plan) parseAlgorithm(backend string, caps Capabilities) error {
	choice, err := tuning.ParseChoice(p.Algorithm)
	bytes := choice.ChunkBytes
	switch {
	case err != nil:
		return err
	case choice.Blocks > 0 && !caps.Has(ThreadBlocks):
		return fmt.Errorf("algorithm %s: backend %s has no choice of blocks", p.Algorithm, backend)
	case bytes > 0 && p.Chunk > 0:
		return fmt.Errorf("algorithm %s and a chunk of %d elements: want one of the two", p.Algorithm, p.Chunk)
	case bytes > 0 && bytes < p.DType.Size():
		return fmt.Errorf("algorithm %s: %d bytes cannot hold an element of %v", p.Algorithm, bytes, p.DType)
	case bytes > 0:
		p.Chunk = bytes / p.DType.Size()
	}
	p.Algorithm, p.Steps, p.Blocks = choice.Algorithm, choice.Steps, choice.Blocks
	return nil
}

// symmetric reports whether all memory of the call is from [Group.Alloc].
func (p *Plan) symmetric() bool {
	return (p.In.Memory() != nil || p.In.Count() == 0) && (p.Out.Memory() != nil || p.Out.Count() == 0)
}

// bytes returns the size of the whole vector, which tuning tables refer to.
func (p *Plan) bytes() int { return p.Count * p.DType.Size() }
