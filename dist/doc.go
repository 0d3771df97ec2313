// Package dist provides process groups: ranks that call collectives together.
//
//	g, err := dist.Init(ctx, dist.Config{Backend: "cpu", Rank: r, Size: n, ID: "job-7"})
//	in, err := g.Alloc(dist.F32, 1<<20) // memory that every rank of the host reaches
//	op, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: in, Out: out})
//	err = op.Run()                      // allocates nothing
//
// There is no global group, and a program may join several. Importing the package of a backend enables it, for example
// dist/cpu; dist/all enables every backend. This package checks calls, chooses algorithms and keeps calls in order. The
// backend moves the data.
//
// # Joining
//
// [Init] joins the group that [Config] identifies and returns once all ranks have joined. A program that a launcher has
// started gets its Config from [FromEnv]; any other program starts its own ranks with [Spawn]. [Group.Split] makes
// smaller groups. A program calls [End] last.
//
// # Memory
//
// A [Buffer] refers to elements, like a slice. [Of] wraps a slice, [Make] allocates host memory, and [Group.Alloc]
// allocates symmetric memory, which all ranks reach without a copy if the backend has it. [Slice] returns the elements
// as a slice.
//
// # Calls
//
// Every rank of a group makes the same collectives in the same order, with the same element type,
// count, reduction, root and options. [Group.Do], and the methods named after operations, make a call
// at once. [Group.Prepare] does all work that is not needed for every run, so that the [Op] can run any number of times
// without allocating. A backend may compare a prepared call between the ranks only at its first run, so all ranks run
// it equally often. [Op.Close] releases what the call holds, at the latest [Group.Close] does.
//
// Count is the number of elements of the whole vector. If a rank holds one block of it (all-gather, gather, scatter,
// reduce-scatter), block r is Block(count, size, r), so counts need not be divisible; [Call] can set other lengths. In
// an all-to-all every In is a whole vector, and rank r collects block r of each, in rank order. A call is in place if
// In and Out share memory. The shorter buffer must then be the rank's own block of the longer one.
//
// # Overlap
//
// One goroutine at a time may use a group. [Op.Start] runs a call in the background, and [Op.Wait] waits for it.
// Collectives run in the order of their calls, started or not. Messages to one peer, and from one peer, also keep their
// order. [Op.Begin] makes the first half of a call and Wait the second half. If the group has the feature [Overlap], no
// thread is needed in between.
//
// # Contexts
//
// The end of a context ends the group, because a rank cannot leave a collective without failing it for the others.
// [Group.Watch] makes a group observe a context. This does not slow down its calls. To stop waiting for a call without
// ending it, select on [Op.Done].
//
// # Element types and codecs
//
// [Float16] and [BFloat16] are Go types; [Convert] converts between buffers of any types. A [Codec] encodes the data
// that an all-reduce moves; [ParseCodec] returns one by name.
//
// # Algorithms
//
// A call names an algorithm, or the [Tuning] table of the group chooses one: the first entry that matches decides.
// [Group.Capabilities] lists the algorithms of the group.
//
// # Errors
//
// If ranks disagree on count, type, operation or order of calls, all of them get a [MisuseError] that names both calls.
// If a rank is dead, has left or does not respond within Config.Timeout, the others get a [PeerError] that names it.
// Both are final: every later call of the group returns the same error.
//
// # Reproducibility
//
// All ranks get the same bits from an all-reduce, and the same inputs give the same bits in every run with the same
// algorithm, chunk and number of ranks. (With the feature [RanksMayDiffer], ranks may differ if sums are inexact.)
// Integers, minima and maxima do not depend on the algorithm. For floating-point sums and products:
//
//   - naive, one-stage and two-stage, and direct of the other collectives, combine in rank order:
//     their results are equal to each other for f32 and f64, whatever the chunk.
//   - one-stage, two-stage and direct accumulate f16 and bf16 in f32 and round once;
//     the other algorithms round at every hop.
//   - ring, recursive-doubling, halving-doubling, tree, torus and hierarchical
//     each have an order of their own.
//
// With two ranks there is only one order, so all algorithms agree for f32 and f64.
//
// # Backends
//
// A [Backend] is registered with a [Description], which contains its capabilities, whether its ranks are processes and
// whether its time is simulated. Code that needs this before a group exists calls [Describe].
// Package disttest is the conformance suite of all backends.
package dist
