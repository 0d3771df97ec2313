// Package baseline tells whether the latest runs of a bench became slower than the
// runs that were saved as its baseline. It works on stored rows and never runs or
// times anything.
//
// A run is one observation: the trials of a run share a build, an hour and the
// neighbours of that hour, and what differs from run to run is what an alarm must not
// be about. A run's value at a point is the median over its trials that count, as
// everywhere. Two looks share the chance of a false alarm:
//
//   - The last runs against the runs of the baseline, for what is small: package
//     compare, each run being a trial of it. It takes four runs on either side.
//   - The latest run alone, for what is large and must not wait: package compare over
//     the launches, at least four of them on either side, and the run's value must also
//     be outside what the spread between the runs of the baseline predicts for one more.
//     Where the latest run has fewer launches, the first look has the whole chance.
//
// Which looks there are depends on counts alone. Each corrects for the number of
// points, so the chance that a check of an unchanged build has any point slower is at
// most Alpha, if nothing but chance differs between the runs.
//
// What is not ok in the latest run, or absent from it, is lost whatever the runs before
// it had. Values without noise are those of the latest run. Runs on another kind of host
// than the baseline's are left out, and if the latest is one, nothing that was measured
// is judged.
package baseline
