// Package shm is how ranks on one host reach each other: a segment of
// memory that all map, how they find it, flags to say how far each has come,
// and channels for messages. It moves bytes and knows nothing of collectives,
// element types or algorithms. Its parts also serve protocols of their own, such as
// package syncgroup's: [Segment] with its claims, which tell who lives, [Park] and
// [Unpark], and [Notice].
//
// # The board
//
// A group's [Board] lies in the segment and holds no pointers. Every rank writes
// only its own cell, of which the others read. Progress is a count of epochs, of 32
// bits that wrap around: a rank signals epoch e by storing it, together with the
// signature of the call it is in, in line e mod 2 of its cell, and waits for a peer
// until that line shows e or later.
//
// A call is a number of epochs, the same on every rank that makes the same call.
// The rules that keep it safe, all explored by the model checker in the tests:
//
//   - In the first epoch of a call everyone waits for everyone, and nobody
//     signals the third before that wait is over. So two ranks that make different calls
//     see each other's signature there, whatever comes later in either.
//   - What a rank writes beside its flag for epoch e (the slot of e mod 2) it
//     may write again for epoch e+2 only after waiting for epoch e+1 of all. A
//     fast rank is thus up to one call ahead of a slow one, never two, and no call
//     needs a wait at its end to protect the slots.
//
// # Waiting
//
// A rank that waits spins, then lets others run, then sleeps on the flag in the
// kernel. Whoever signals makes a system call only if somebody sleeps. Sleep is
// bounded, so that a failed group, a dead rank and the end of patience are
// noticed.
package shm
