// Package measure samples a function on all ranks of a launch at once.
//
// [Run] warms up, chooses how many calls make one sample, and takes samples in
// blocks. Inside a block each rank runs alone; after it the ranks exchange their
// samples and every rank computes the same decision from the same data, so no
// rank leads. The statistics of the samples are pure functions of the [Matrix].
//
// It knows nothing of benches, rows or journals, and reaches the other ranks only
// through a [syncgroup.Group]. A call that hangs in the backend under test is not
// detected here but by the caller, who watches the progress.
package measure
