// Package model interprets the times of all-reduces. It fits lines of
// time = alpha + bytes/beta, reports whether latency or bandwidth limits a size, finds the
// fastest algorithm for each size, compares times with the rates of known links, warns
// about results that contradict physics, and judges published claims. docs/models.md
// explains the reasoning and cites the sources.
//
// The package is pure. Rows of a journal, or samples, go in and values come out; it
// measures nothing and draws nothing. Package llm applies the times to language models.
//
// The types build on each other:
//
//   - [Sample]: the time of one point, from the rows of its trials
//   - [Curve]: lines through the samples of one [Series] (algorithm, type, ranks, ...)
//   - [Table]: times by ranks and size, for interpolation without assuming a shape
//   - [Warning], [Verdict]: conclusions of [Check] and [Judge]
package model
