// Package report makes the views with pictures of a run: figures chosen on the
// command line (Plot) or by default (AutoPlot), and one self-contained HTML page
// with the run in words, its figures, its rows and its provenance.
//
// Everything is made from the journal and made again the same: choosing what to
// draw, wording and laying out are pure functions of the header and its rows.
// Only Render touches files. The package measures and judges nothing, and it
// draws through package figure and writes tables through package export.
package report
