// Package compare judges two runs of one bench, point by point: what became
// faster or slower, what is the same, what cannot be told apart, and what was
// lost. It works on stored rows and never runs or times anything; the writers
// beside it show the report as a table, JSON or JUnit XML.
//
// # Pairs
//
// Rows are the same point when bench, part, axes, number of ranks, backend,
// environment and options agree; Options.Ignore names what differs on purpose.
// The effect of a pair is the ratio of NEW to OLD, judged on the logarithm, so
// that twice as slow and twice as fast weigh the same.
//
// # What counts as an observation
//
// Samples within one launch share its memory layout, its placement and its
// luck; they say little about the next launch. Trials are separate launches,
// and therefore the statistical unit. How launches differ has to be learned from
// at least four a side, the least from which a rank test can reach 5 %.
//
//   - Four or more trials: the exact Mann-Whitney U test on the trials' values
//     gives p, the Hodges-Lehmann shift the effect, and the inverted U test its
//     95 % interval. A sweep of several points asks for smaller p than the ranks
//     of a few trials can give, or give without complete separation (six against
//     six stop at 0.0022); then Welch's t test on the logarithms gives p, though
//     none that the median spread of all points would not give, and the U test
//     must still agree at the uncorrected level. Which of the two is used depends
//     on counts alone, never on the values.
//   - Fewer trials: no verdict. Such a pair is ambiguous, whatever its samples
//     say, and its note says how many trials would tell.
//   - A trial with a warning of stolen time, of another kernbench or of drift does
//     not count: what went on beside one run would pass for a change.
//   - Simulated rows have no noise: their ratio is exact.
//
// # Verdicts
//
// A pair is slower or faster when its p, corrected after Holm over all pairs of the
// report, is at most Alpha and its effect is beyond the floor. So the chance
// that a report on two equal builds has any such verdict is at most Alpha,
// however many points it has. A pair is the same when its interval lies within
// the floor. Everything else is ambiguous: the honest answer to too few trials or
// too much noise. The interval shown is the pair's own, not corrected.
package compare
