// Package dist is process groups: ranks that call collectives together.
//
//	g, err := dist.Init(ctx, dist.Config{Backend: "cpu", Rank: r, Size: n, ID: "job-7"})
//	in, err := g.Alloc(dist.F32, 1<<20) // memory every rank of the host reaches
//	op, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: in, Out: out})
//	err = op.Run()                      // allocates nothing
//
// There is no global group: a program may be in several. A backend is enabled by
// importing its package, for example dist/cpu, or dist/all for every one. This
// package checks calls, chooses algorithms and keeps order; moving the data is the
// backend's part.
//
// # Joining
//
// [Init] joins the group that [Config] names and returns when all its ranks have.
// A program that a launcher has started gets its Config from [FromEnv]; one that
// has not starts its own ranks with [Spawn]. [Group.Split] makes smaller groups
// of a group, and [End] is the last thing a program calls.
//
// # Memory
//
// A [Buffer] refers to elements as a slice does. [Of] makes one of a slice of the
// program, [Make] one of new memory, [Group.Alloc] one of symmetric memory, which all ranks reach without a
// copy where the backend has it; [Slice] gives the elements back as a slice.
//
// # Calls
//
// Every rank of a group makes the same collectives in the same order, with the
// same element type, count, reduction, root and options. The methods of [Group]
// make a call at once; [Group.Prepare] does everything that can be done before,
// so that running the [Op] any number of times allocates nothing.
//
// Count is the number of elements of the whole vector. Where a rank holds one
// block of it (all-gather, gather, scatter, reduce-scatter), block r is
// Block(count, size, r), so counts need not divide; [Counts] gives blocks other lengths.
// In an all-to-all every In is a whole vector and rank r collects block r of each, in
// rank order. In place means that In and Out are one memory: the shorter is the rank's
// own block of the longer one.
//
// # Overlap
//
// One goroutine at a time may use a group. [Op.Start] and the Async methods run a
// call beside the program and [Handle.Wait] waits for it. Collectives run in the
// order in which they were called, started or not; so do the messages to one
// peer, and those from it. [Op.Begin] and [Op.Finish] are the halves of a call: a small
// all-reduce needs no thread between them where the backend declares Overlap.
//
// # Contexts
//
// A context that ends, ends the group: a rank cannot leave a collective that others are
// in without ending it for them. [Group.Watch] makes a group heed a context, for all its
// calls and at no cost to them; [WithContext] gives one to a single call.
// [Handle.WaitContext] only stops waiting.
//
// # Element types and codecs
//
// [Float16] and [BFloat16] are types of Go here, made by [Float16From] and [BFloat16From];
// [Convert] converts between buffers of any types. A [Codec] encodes what an all-reduce
// moves; [ParseCodec] finds those that are known.
//
// # Algorithms
//
// [Algorithms] lists those of a collective. A call names one ([Algorithm]), or leaves
// the choice to the [Tuning] table of the group, whose first entry that matches
// decides. [Group.Capabilities] lists those that the backend has for the group.
//
// # Errors
//
// Ranks that do not agree (other count, type, operation or order of calls) all
// get a [MisuseError] that names both sides. A rank that is dead, has left or
// does not come within Config.Timeout gives a [PeerError] that names it. Both
// are final: every later call of the group returns the same error. What is left of the
// group goes on as a new one with [Group.Shrink], where the backend can.
//
// # Which results are equal, bit for bit
//
// All ranks get the same bits from an all-reduce, and the same inputs give the
// same bits in every run with the same algorithm, chunk and number of ranks (the
// ranks of a backend that declares RanksRound may differ where sums are inexact).
// Integers, and minima and maxima, are equal whatever the algorithm. For
// floating-point sums and products:
//
//   - naive, one-stage and two-stage, and direct of the other collectives, combine in rank order:
//     their results are equal to each other for f32 and f64, whatever the chunk.
//   - one-stage, two-stage and direct accumulate f16 and bf16 in f32 and round once;
//     the other algorithms round at every hop.
//   - ring, recursive-doubling, halving-doubling, tree, torus and hierarchical
//     each have an order of their own.
//
// With two ranks there is only one order, so for f32 and f64 all agree.
//
// # Backends
//
// A [Backend] registers a [Description] of itself, and whoever must know something
// of it before a group exists asks for that ([Describe]): what it can do, whether
// its ranks are processes, whether its time is real, who starts them. Package
// disttest is the suite that every backend passes.
package dist
