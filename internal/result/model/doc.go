// Package model says what times of an all-reduce mean: which line they lie on
// (time = alpha + bytes/beta), whether latency or bandwidth decides, which
// algorithm is best where, how far a link's named ceilings are, and which
// numbers and which published claims contradict physics. docs/models.md has the
// reasoning with its sources.
//
// It is pure: rows of a journal, or samples, go in and values come out. It
// measures nothing and draws nothing. Package llm beneath it turns times into
// what they mean for a language model.
package model
