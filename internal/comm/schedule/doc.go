// Package schedule describes collectives as data: an algorithm is a pure
// function of the number of ranks, the topology and the element count that
// gives, for each rank, the stream of steps that rank performs. Transports and
// the simulator run these streams, Cost counts their traffic and Check proves
// them right. The package moves no data itself and knows neither element types
// nor clocks nor processes.
//
// # Buffers
//
// Every rank has three buffers: Input (never written), Output and Scratch,
// whose lengths Schedule.Len gives in elements. With Params.InPlace, Input and
// Output are one memory: the shorter of the two is the rank's own block of the
// longer, as in NCCL and MPI_IN_PLACE.
//
// Count is the number of elements of the whole vector. Where a rank holds one
// block of it (all-gather, gather, scatter, reduce-scatter), block r is
// Split(Count, Ranks, r), so counts that do not divide need no padding. In an
// all-to-all every Input is a whole vector; rank r collects block r of each,
// in rank order.
//
// # Steps
//
// A rank performs its steps one after the other. A step is complete when its
// own ranges may be used again.
//
//	send, recv, recv-reduce       one message; reduce means "add to what is there"
//	sendrecv, sendrecv-reduce     one message each way, both posted at once
//	copy, reduce                  local
//	get, put                      copy from or to one peer's memory
//	get-reduce                    the sum of one range over a set of peers, in
//	                              the set's order, overwrites a local range
//	signal, wait                  raise a flag at each of a set of peers; wait for
//	                              the next flag of each (oneself is skipped)
//
// The k-th message (or flag) from a to b is for b's k-th receive (or wait)
// from a; Tag, the round of the algorithm, is the same at both ends. Every transport can
// carry messages and flags. Get, get-reduce and put need memory that peers
// reach directly, which Info.Direct tells.
//
// # What is proved
//
// Check runs the steps of all ranks on symbolic contents: a range of a buffer
// holds the sum of some ranks' contributions, kept per interval and not per
// element. It demands that
//
//   - sends complete without any buffering (rendezvous), so that no transport
//     can deadlock however little it buffers;
//   - no sum takes in a contribution twice or adds different elements, nothing
//     unwritten is read, and at the end each output is what the collective
//     promises, for all its elements;
//   - every access to a peer's memory is ordered, by messages and flags, with
//     each conflicting access. Messages order only send before receive here,
//     so that no transport can race however much it buffers. The caller's use of the
//     buffers before and after the collective counts as an access.
//
// Peers are named in the steps, never "any rank", so without races every order of
// execution gives the same contents: the one order that Check runs stands for all.
//
// Every all-reduce here also gives all ranks the same bits where addition
// rounds: each element is either summed in one place or, in recursive
// doubling, by the same tree up to the order of two operands.
package schedule
