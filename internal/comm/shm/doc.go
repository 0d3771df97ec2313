// Package shm connects ranks on one host: a memory segment that all of them map, the way they find it, flags that show
// the progress of each rank, and channels for messages. It moves bytes and knows nothing about collectives, element
// types or algorithms. Package syncgroup uses parts of it for its own protocol: [Segment] with its claims, which show
// which ranks are alive, [Park], [Unpark] and [Notice].
//
// # The board
//
// The [Board] of a group lies in the segment and contains no pointers. Every rank writes only its own cell, and the
// others read it. Progress is a counter of epochs (32 bits, wrapping). A rank signals epoch e by storing it in line e
// mod 2 of its cell, together with the signature of its current call. It waits for a peer until the peer's line shows e
// or later.
//
// A call is a number of epochs, the same on every rank that makes the same call. Two rules keep it safe. The model
// checker in the tests explores both:
//
//   - In the first epoch of a call everyone waits for everyone, and nobody signals the third epoch before that wait is
//     over. So two ranks that make different calls see each other's signature there.
//   - A rank may overwrite the data beside its flag for epoch e (the slot e mod 2) for epoch e+2 only after it has
//     waited for epoch e+1 of all ranks. A fast rank is therefore at most one call ahead of a slow one, and no call
//     needs a barrier at its end to protect the slots.
//
// # Waiting
//
// A waiting rank spins, then yields its core, then sleeps on the flag in the kernel. A signal makes a system call only
// if some rank sleeps. Each sleep is bounded, so that a failed group, a dead rank and a timeout are noticed.
package shm
