// Package journal keeps what a run found out: one append-only file of JSON
// lines, RUN/journal.jsonl, from which every table, figure and export is made.
//
// Writer appends records under a file lock, so that several processes may
// record into one folder, and never changes what is there. Read takes the file
// as it is, also after a crash in the middle of a line: it skips what it cannot
// read, says so, and returns the rest grouped by run. Key is the identity by
// which a resumed run knows work that is already done.
//
// The package knows nothing about planning, launching or rendering; it also
// holds the two file helpers those need (WriteFileAtomic and raw samples).
// docs/journal-schema.md describes the format for readers in other languages.
package journal
