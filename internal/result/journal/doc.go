// Package journal stores the results of runs in one append-only file of JSON lines,
// RUN/journal.jsonl. Every table, figure and export is made from it.
//
// Writer appends records under a file lock, so that several processes can record into one folder. It
// never changes existing lines. Hold is a lock on one run: only its holder may append records of that
// run. Read accepts any file, even one that ends in the middle of a line after a crash. It reports the
// lines that it cannot read and returns the rest, grouped by run. Key identifies a point, so that a
// resumed run finds the work that is already done.
//
// The package knows nothing about planning, launching or rendering. It also contains the file helpers
// that those packages need: atomic writes, raw samples and kernel profiles. docs/journal-schema.md
// describes the format for programs in other languages.
package journal
