package schedule

import (
	"iter"
	"slices"
	"strings"
	"testing"
)

// literal is a hand-written schedule. Its scratch is as long as the vector.
type literal struct {
	collective string
	params     Params
	steps      [][]Step
}

func (l literal) Name() string       { return "by-hand" }
func (l literal) Collective() string { return l.collective }
func (l literal) Ranks() int         { return l.params.Ranks }
func (l literal) Count() int         { return l.params.Count }
func (l literal) Params() Params     { return l.params }

func (l literal) Len(buf Buffer, rank int) int {
	if buf == Scratch {
		return l.params.Count
	}
	return l.params.Len(l.collective, buf, rank)
}

func (l literal) Steps(rank int) iter.Seq[Step] { return slices.Values(l.steps[rank]) }

// Short constructors of steps.
func copyStep(src, dst Range) Step   { return Step{Op: Copy, Src: src, Dst: dst} }
func reduceStep(src, dst Range) Step { return Step{Op: Reduce, Src: src, Dst: dst} }
func sendStep(to int, src Range) Step {
	return Step{Op: Send, To: One(to), Src: src}
}
func recvStep(op Op, from int, dst Range) Step {
	return Step{Op: op, From: One(from), Dst: dst}
}
func getStep(from int, src, dst Range) Step {
	return Step{Op: Get, From: One(from), Src: src, Dst: dst}
}
func putStep(to int, src, dst Range) Step {
	return Step{Op: Put, To: One(to), Src: src, Dst: dst}
}
func signalStep(to int) Step { return Step{Op: Signal, To: One(to)} }
func waitStep(from int) Step { return Step{Op: Wait, From: One(from)} }

// TestCheckErrors plants one fault of each kind. The error must name the rank, the step, the range and the reason.
func TestCheckErrors(t *testing.T) {
	start := copyStep(in(0, 4), out(0, 4))
	sendrecv := Step{Op: SendRecv, To: One(1), Src: in(0, 4), From: One(2), Dst: scratch(0, 4)}
	for name, c := range map[string]struct {
		collective string
		inPlace    bool
		steps      [][]Step
		want       string
	}{
		"right": {AllReduce, false, [][]Step{
			{start, recvStep(RecvReduce, 1, out(0, 4)), sendStep(1, out(0, 4))},
			{sendStep(0, in(0, 4)), recvStep(Recv, 0, out(0, 4))}}, ""},
		"both send first": {AllReduce, false, [][]Step{
			{start, sendStep(1, in(0, 4)), recvStep(RecvReduce, 1, out(0, 4))},
			{start, sendStep(0, in(0, 4)), recvStep(RecvReduce, 0, out(0, 4))}},
			"rank 0 step 1 (send input[0,4) to rank 1 (round 0)): deadlock, waits for rank 1, which is held up at step 1 " +
				"(send input[0,4) to rank 0"},
		"nobody sends": {AllReduce, false, [][]Step{{start, recvStep(RecvReduce, 1, out(0, 4))}, {start}},
			"rank 0 step 1 (recv-reduce output[0,4) from rank 1 (round 0)): deadlock, rank 1 has ended after 1 steps"},
		"nobody signals": {AllReduce, false, [][]Step{{waitStep(1)}, {start}},
			"rank 0 step 0 (wait for rank 1 (round 0)): deadlock, rank 1 has ended"},
		"nobody waits": {AllReduce, false, [][]Step{{signalStep(1)}, {}},
			"rank 0 step 0 (signal rank 1 (round 0)): rank 1 never waits for this flag"},
		"lengths differ": {AllReduce, false, [][]Step{{start, recvStep(RecvReduce, 1, out(0, 3))}, {sendStep(0, in(0, 4))}},
			"rank 0 step 1 (recv-reduce output[0,3) from rank 1 (round 0)): receives another message: rank 1 step 0 " +
				"(send input[0,4)"},
		"flags of other rounds": {AllReduce, false, [][]Step{{{Op: Wait, Tag: 1, From: One(1)}}, {signalStep(0)}},
			"sees another flag: rank 1 step 0"},
		"twice": {AllReduce, false, [][]Step{{start, reduceStep(in(0, 2), out(0, 2))}, {}},
			"rank 0 step 1 (reduce input[0,2) to output[0,2)): adds rank 0's contribution to elements 0 to 1 again"},
		"other elements": {AllReduce, false, [][]Step{{start, recvStep(RecvReduce, 1, out(1, 2))}, {sendStep(0, in(0, 2))}},
			"adds input element 0 to input element 1"},
		"sum of nothing": {AllReduce, false, [][]Step{{reduceStep(in(1, 2), out(1, 2))}, {}},
			"adds to elements 0 to 1 of it, which have not been written"},
		"unwritten": {AllReduce, false, [][]Step{{copyStep(in(0, 2), scratch(0, 2)), copyStep(scratch(0, 4), out(0, 4))}, {}},
			"rank 0 step 1 (copy scratch[0,4) to output[0,4)): reads scratch[0,4) of rank 0: elements 2 to 3 of it have not " +
				"been written"},
		"input written": {AllReduce, false, [][]Step{{copyStep(scratch(0, 4), in(0, 4))}, {}}, "writes to the input"},
		"outside": {AllReduce, false, [][]Step{{copyStep(in(2, 3), out(2, 3))}, {}},
			"rank 0 step 0 (copy input[2,5) to output[2,5)): input[2,5) is outside the input of rank 0, which has 4 elements"},
		"empty": {AllReduce, false, [][]Step{{copyStep(in(2, 0), out(2, 0))}, {}}, "input[2,2) is empty"},
		"unequal": {AllReduce, false, [][]Step{{copyStep(in(0, 2), out(0, 3))}, {}},
			"the source has 2 elements, the destination 3"},
		"overlap": {AllReduce, false, [][]Step{{start, copyStep(out(0, 2), out(1, 2))}, {}},
			"output[0,2) and output[1,3) overlap"},
		"overlap alias": {AllReduce, true, [][]Step{{copyStep(in(0, 2), out(1, 2))}, {}},
			"input[0,2) and output[1,3) overlap"},
		"no such rank": {AllReduce, false, [][]Step{{signalStep(2)}, {}}, "no such peer: rank 2, ranks are 0 to 1"},
		"itself":       {AllReduce, false, [][]Step{{sendStep(0, in(0, 4))}, {}}, "the peer is the rank itself"},
		"several": {AllReduce, false, [][]Step{{{Op: Get, From: Peers{0, 1, 2}, Src: in(0, 1), Dst: out(0, 1)}}, {}},
			"takes one peer, not 2"},
		"nobody":       {AllReduce, false, [][]Step{{{Op: Wait}}, {}}, "names no peer"},
		"no operation": {AllReduce, false, [][]Step{{{Op: 99}}, {}}, "rank 0 step 0 (op(99)): unknown operation"},
		"no buffer": {AllReduce, false, [][]Step{{copyStep(Range{7, 0, 1}, out(0, 1))}, {}},
			"buffer(7)[0,1): no such buffer"},

		"nothing done": {AllReduce, false, [][]Step{{}, {}},
			"at the end of rank 0: output[0,4): elements 0 to 3 of it have not been written"},
		"rank missing": {AllReduce, false, [][]Step{{start}, {}}, "output[0,4) lacks the contribution of rank 1"},
		"rank too many": {AllGather, false, [][]Step{
			{sendStep(1, in(0, 2)), copyStep(in(0, 2), out(0, 2)), recvStep(Recv, 1, out(2, 2))},
			{copyStep(in(0, 2), out(0, 2)), recvStep(RecvReduce, 0, out(0, 2)), sendStep(0, in(0, 2)),
				copyStep(in(0, 2), out(2, 2))}},
			"at the end of rank 1: output[0,2) has a contribution of rank 1, which does not belong there"},
		"rank 0 too many": {AllGather, false, [][]Step{
			{copyStep(in(0, 2), out(0, 2)), copyStep(in(0, 2), out(2, 2)), recvStep(RecvReduce, 1, out(2, 2))},
			{sendStep(0, in(0, 2))}},
			"at the end of rank 0: output[2,4) has a contribution of rank 0, which does not belong there"},
		"wrong elements": {Scatter, false, [][]Step{{copyStep(in(2, 2), out(0, 2))}, {}},
			"output[0,2) holds input elements from 2 on, should be from 0 on"},
		"wrong rank": {AllGather, false, [][]Step{
			{copyStep(in(0, 2), out(0, 2)), recvStep(Recv, 1, out(2, 2))},
			{sendStep(0, in(0, 2)), copyStep(in(0, 2), out(0, 2)), copyStep(in(0, 2), out(2, 2))}},
			"at the end of rank 1: output[0,2) lacks the contribution of rank 0"},
		"left too early": {Barrier, false, [][]Step{{signalStep(1)}, {waitStep(0)}},
			"at the end of rank 0: it leaves the barrier before rank 1 has entered it"},
		"not yet there": {AllReduce, false, [][]Step{{getStep(1, in(0, 4), out(0, 4))}, {}},
			"rank 0 step 0 (get input[0,4) of rank 1 to output[0,4)): reads input[0,4) of rank 1, not ordered after rank " +
				"1's beginning"},
		"already gone": {AllReduce, false,
			[][]Step{{signalStep(1), waitStep(1), getStep(1, in(0, 4), out(0, 4))}, {waitStep(0), signalStep(0)}},
			"not ordered after rank 1's end, after which the memory belongs to its caller"},
		"not finished": {AllReduce, false, [][]Step{
			{waitStep(1), getStep(1, scratch(0, 4), out(0, 4)), signalStep(1)},
			{signalStep(0), copyStep(in(0, 4), scratch(0, 4)), waitStep(0)}},
			"rank 0 step 1 (get scratch[0,4) of rank 1 to output[0,4)): reads scratch[0,4) of rank 1, not ordered after rank " +
				"1's write at its step 1"},
		"written as read": {AllReduce, false, [][]Step{
			{copyStep(in(0, 4), scratch(0, 4)), signalStep(1), copyStep(scratch(1, 2), out(1, 2)), waitStep(1)},
			{waitStep(0), putStep(0, in(0, 2), scratch(0, 2)), signalStep(0)}},
			"rank 1 step 1 (put input[0,2) to scratch[0,2) of rank 0): writes scratch[0,2) of rank 0, not ordered after rank " +
				"0's read at its step 2"},
		"written below": {AllReduce, false, [][]Step{
			{waitStep(1), getStep(1, scratch(0, 4), out(0, 4)), signalStep(1)},
			{copyStep(in(0, 4), scratch(0, 4)), signalStep(0), copyStep(in(0, 2), scratch(2, 2)), waitStep(0)}},
			"rank 0 step 1 (get scratch[0,4) of rank 1 to output[0,4)): reads scratch[0,4) of rank 1, not ordered after rank " +
				"1's write at its step 2"},
		"received by now": {AllReduce, false, [][]Step{
			{sendrecv, waitStep(1)},
			{recvStep(Recv, 0, scratch(0, 4)), recvStep(Recv, 2, scratch(0, 4)), getStep(0, scratch(0, 4), out(0, 4)),
				signalStep(0)},
			{sendStep(0, in(0, 4)), sendStep(1, in(0, 4))}},
			"rank 1 step 2 (get scratch[0,4) of rank 0 to output[0,4)): reads scratch[0,4) of rank 0, not ordered after rank " +
				"0's write at its step 0"},
		"send is no wait": {AllReduce, false, [][]Step{
			{signalStep(1), sendStep(1, in(0, 1))},
			{waitStep(0), getStep(0, in(0, 4), out(0, 4)), recvStep(Recv, 0, scratch(0, 1))}},
			"rank 0 ends after 2 steps: its input is not ordered after rank 1's read at its step 1"},
		"put unasked": {Gather, false, [][]Step{{waitStep(1)}, {putStep(0, in(0, 2), out(2, 2)), signalStep(0)}},
			"rank 1 step 0 (put input[0,2) to output[2,4) of rank 0): writes output[2,4) of rank 0, not ordered after rank " +
				"0's beginning"},
	} {
		s := literal{c.collective, Params{Ranks: len(c.steps), Count: 4, InPlace: c.inPlace}, c.steps}
		err := Check(s)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s:\n got %v\nwant %s", name, err, c.want)
		}
	}
}

// TestCheckCostIsIndependentOfCount proves a vector of maximal length: the cost depends on intervals, not elements.
func TestCheckCostIsIndependentOfCount(t *testing.T) {
	for _, i := range instances(7, 1<<60) {
		if err := Check(i.build(t)); err != nil {
			t.Errorf("%v: %v", i, err)
		}
	}
}

func TestStepsOfInvalidRank(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("rank 2 of 2 has steps")
		}
	}()
	instance{AllReduce, "ring", Params{Ranks: 2, Count: 4}}.build(t).Steps(2)
}

// mislabelled is a schedule that reports wrong parameters.
type mislabelled struct {
	Schedule
	params Params
}

func (m mislabelled) Params() Params { return m.params }

// TestInPlaceNeedsOwnSteps runs the out-of-place variant of one-stage in place. It reads inputs that their
// owners overwrite, so Check rejects it.
func TestInPlaceNeedsOwnSteps(t *testing.T) {
	s := instance{AllReduce, "one-stage", Params{Ranks: 3, Count: 4}}.build(t)
	p := s.Params()
	p.InPlace = true
	if err := Check(mislabelled{s, p}); err == nil || !strings.Contains(err.Error(), "not ordered after") {
		t.Errorf("in place without a copy: %v", err)
	}
}
