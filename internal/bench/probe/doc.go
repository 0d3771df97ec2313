// Package probe measures what this host can do at best: how fast 1 to n cores
// copy and read memory at each size, how fast they give each other what only they
// reach, and how long a cache line, a futex wake and a message take from one core to
// another. A collective's time is held against these.
//
// [Measure] has the effects; everything derived from a [Result] is pure, so a
// limit can be computed from a file written anywhere. A stored result is used
// only by the host class and the version of kernbench that made it: see
// [Result.Check].
//
// The cores are all those that the control group leaves to this process, also
// where the process itself is bound to fewer: a limit belongs to the machine,
// not to the rank that asks. The package judges no result and knows nothing of
// collectives.
package probe
