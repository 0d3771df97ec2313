// Package changepoint finds when a bench became slower or faster in a sequence of its runs. It is pure:
// baseline checks, comparisons of a history, the web page and CI pass it the values of their runs and
// print its answer.
//
// # The observation
//
// A run is one observation. Its launches share a build and the load at that time, so runs differ by more than the
// launches within a run suggest. The value of a point in a run is the Hodges-Lehmann center of its launches, as a
// logarithm. In addition to each point, all points together are tested: in each run their mean, with more weight for
// points that vary less. A change that all points have in common is found there first, because the noise of their
// launches averages out.
//
// # Steps
//
// After each run, the last 1, 2, 3, 4, 6, 8 ... 48 runs are compared with the runs before them, by
// Student's t test with the variance between runs. Three rules prevent false alarms when there are few
// runs:
//
//   - The variance is a weighted mean of the measured variance and an assumed one, which weighs as much as
//     six runs. The assumed standard deviation is 1 % between runs, in addition to what the launches
//     explain. It matters until there are enough runs to estimate the noise.
//   - The fewer the recent runs, the heavier the tails of the distribution (see tailDof), and the ranks of
//     the runs must agree. So a single bad night rarely raises an alarm.
//   - A step must still be present in the last run and exceed Rule.Floor. A step of all points together must also be
//     visible at more than half of the points.
//
// The probability of a false alarm, Rule.Alpha, is divided among all points together (half), the single points, and the
// numbers of recent runs, most of it for 2 and 3 runs. If all launches of a run take 1.5 times as long as any launch
// before (2.5 times if there are fewer than four), no estimate of the noise is needed.
//
// # No slowdown
//
// A check that finds no step reports how large a slow-down it could have missed: the upper end of the one-sided 95 %
// interval of the change from the runs before to the latest run. The verdict is NoSlowdown if this is at most
// Rule.Tolerance for all points together and twice as much for each point, else CannotTell. The claim for all points
// together needs no correction for their number: it is wrong only if the interval of a point that did slow down is
// wrong (an intersection-union test, Berger 1982).
package changepoint
