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
// and therefore the statistical unit wherever both sides have at least four of
// them, the least from which a rank test can reach 5 %.
//
//   - Four or more trials: the exact Mann-Whitney U test on the trials' values
//     gives p, the Hodges-Lehmann shift the effect, and the inverted U test its
//     95 % interval. A sweep of many points asks for smaller p than the ranks
//     of a few trials can give (six against six stop at 0.0022, too much from 24 points on);
//     then Welch's t test on the logarithms gives p, and the U
//     test must still agree at the uncorrected level. Which of the two is used depends
//     on counts alone, never on the values.
//   - Fewer trials: samples are all there is. Their noise comes from the
//     medians of consecutive blocks of iterations, corrected for what blocks
//     miss when neighbours resemble each other, or from the stored interval
//     where samples are not kept. How much a new launch alone would change is
//     unknown, so a standard deviation of LaunchSpread is assumed for it, or
//     more if the two or three trials of this point or of all points show
//     more. A change must in addition exceed WideFloor and twice the larger
//     interval, and an interval within WideFloor is the same. The error rate
//     holds as far as launches really vary no more than assumed, and the pair's
//     note says so.
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
