// Package shm connects the ranks of one host through shared memory. [Meet] lets them find each other and map one
// segment, the flags of a [Board] show the progress of each rank, and a [Channel] carries messages. The package moves
// bytes and does not depend on collectives, element types or algorithms. Package syncgroup has a protocol of its own,
// but uses [Park], [Unpark], [Notice] and [Segment]. The claims of a segment show which ranks are alive.
//
// # The board
//
// The [Board] of a group lies in the segment and contains no pointers. Every rank writes only its own cell, and the
// others read it. Progress is a counter of epochs (32 bits, wrapping). A rank signals epoch e by storing e in line e
// mod 2 of its cell, together with the signature of its current call. A rank that waits for a peer to reach epoch e
// checks the peer's line until it shows e or later.
//
// A call takes a number of epochs, which is the same on every rank that makes the same call. Callers must follow two
// rules, which the model checker in the tests explores:
//
//   - In the first epoch of a call, every rank waits for every other rank. No rank signals the third epoch before that
//     wait is over, because this would overwrite its flag of the first epoch. Two ranks that make different calls
//     therefore always see each other's signature.
//   - The data of epoch e is in slot e mod 2, which epoch e+2 uses again. A rank may overwrite it only after it has
//     seen all ranks signal epoch e+1. A fast rank is therefore at most one call ahead of a slow one, and no call
//     needs a barrier at its end to protect the slots.
//
// # Waiting
//
// A waiting rank spins, then yields its core, then sleeps on the flag in the kernel (futex). A signal makes a system
// call only if some rank sleeps. Each sleep has a limit, so that the rank notices a failed group, a dead peer and a
// timeout without a signal.
package shm
