package node

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Streams is a set of a rank's output streams, in torchrun's numbers.
type Streams int

const (
	Stdout Streams = 1
	Stderr Streams = 2
)

// Selection says which streams of which local ranks something applies to. The
// zero value selects nothing.
type Selection struct {
	rest Streams // of ranks that are not named
	by   map[int]Streams
}

// ParseSelection reads torchrun's notation: one number for all ranks (0 none,
// 1 stdout, 2 stderr, 3 both), or numbers for some local ranks, as in 0:3,1:2.
func ParseSelection(text string) (Selection, error) {
	fault := fmt.Errorf("%q: want 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or such numbers by local rank, "+
		"as in 0:3,1:2", text)
	number := func(s string) (Streams, bool) {
		n, err := strconv.Atoi(s)
		return Streams(n), err == nil && n >= 0 && n <= 3
	}
	if !strings.Contains(text, ":") {
		n, ok := number(text)
		if !ok {
			return Selection{}, fault
		}
		return Selection{rest: n}, nil
	}
	s := Selection{by: map[int]Streams{}}
	for part := range strings.SplitSeq(text, ",") {
		rank, streams, _ := strings.Cut(part, ":")
		n, err := strconv.Atoi(rank)
		which, ok := number(streams)
		if _, twice := s.by[n]; err != nil || n < 0 || !ok || twice {
			return Selection{}, fault
		}
		s.by[n] = which
	}
	return s, nil
}

// Has reports whether a stream of a local rank is selected.
func (s Selection) Has(local int, stream Streams) bool {
	if which, named := s.by[local]; named {
		return which&stream != 0
	}
	return s.rest&stream != 0
}

// Empty reports whether nothing is selected.
func (s Selection) Empty() bool {
	for _, which := range s.by {
		if which != 0 {
			return false
		}
	}
	return s.rest == 0
}

// Logs says where the output of the ranks goes. Without anything set, all of it
// goes to the console.
type Logs struct {
	Dir       string    // keeps every stream of every rank when set
	Redirects Selection // kept from the console
	Tee       Selection // on the console all the same
	Filter    []int     // only these local ranks on the console; nil is all
}

// shown reports whether the console gets a stream.
func (l Logs) shown(local int, stream Streams) bool {
	if l.Filter != nil && !slices.Contains(l.Filter, local) {
		return false
	}
	return !l.Redirects.Has(local, stream) || l.Tee.Has(local, stream)
}
