// Package probe measures the limits of this host: how fast 1 to n cores copy and
// read memory at each size, how fast they exchange the contents of private memory,
// and how long a cache line, a futex wake and a message take from one core to
// another. A collective's time is compared with these.
//
// [Measure] measures; everything derived from a [Result] is pure, so that a limit can
// be computed from a file written anywhere. A stored result is used only on the
// host class, and by the version of kernbench, that made it: see [Result.Check].
//
// The cores are all those that the control group grants to this process, even if
// the process itself is bound to fewer: a limit belongs to the machine, not to the
// rank that asks. The package does not judge results and knows nothing of
// collectives.
package probe
