// Package changepoint finds when a bench became slower or faster in a sequence of its runs. It
// is pure: baseline checks, comparisons of a history, the web page and CI give it the values of
// their runs and print its answer.
//
// # The observation
//
// A run is one observation. Its launches share a build and the load of that hour, so the
// difference between runs is larger than the launches within a run suggest. The value of a point
// in a run is the Hodges-Lehmann center of its launches, as a logarithm. Beside the points there is
// the whole: in each run the mean over all points, in which points that vary less weigh more. A
// change that all points share shows there first, because the noise of their launches averages out.
//
// # Steps
//
// After each run the last 1, 2, 3, 4, 6, 8 ... 48 runs are compared with the runs before them, by
// Student's t test with the variance between runs. Three things keep few runs from fooling it:
//
//   - The variance is a mean of the data's and an assumed one (1 % between runs, beside what the
//     launches explain), which counts as six runs. It matters until runs have shown their noise.
//   - For one to three recent runs the test uses a distribution with heavier tails (tailDof),
//     and the ranks of the runs must agree. So a single bad night rarely raises an alarm.
//   - A step must still be there in the last run, exceed Rule.Floor, and, as a step of the whole,
//     be visible at more than half of the points.
//
// The probability of a false alarm, Rule.Alpha, is divided among the whole (half), the points, and
// the numbers of runs; most goes to 2 and 3 runs. A launch that takes 1.5 times as long as any
// before it (2.5 times, if there are fewer than four) needs no estimate of the noise.
//
// # No slowdown
//
// A check that finds no step says how large a slow-down it could have missed: the upper end of the
// one-sided 95 % interval of the latest run against the runs before. The verdict is NoSlowdown
// if that is at most Rule.Tolerance for the whole and twice that for each point, else
// CannotTell. To claim this for every point at once needs no correction for their number: it is
// wrong only if the interval of the point that did slow down is wrong (an intersection-union
// test, Berger 1982).
package changepoint
