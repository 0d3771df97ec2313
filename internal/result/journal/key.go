package journal

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/kernbench/kernbench/internal/base/point"
)

// keyLen is the number of hex digits of a key. With 64 bits, the probability of a
// collision among a hundred thousand points is below 1 in 10^9.
const keyLen = 16

// Key returns the identity of a point for --resume. Two points have the same key if and only if they are
// the same work. The order of coordinates, variables and options does not matter. ranks is nil if the
// program starts its own ranks. inputs maps the names of input files to their SHA-256.
func Key(bench, part, version string, pt point.Point, ranks *int, backend string, env point.Env, options point.Point,
	inputs map[string]string) string {
	return NewKeyer(bench, part, version, backend, options, inputs).Key(pt, ranks, env)
}

// Keyer computes the keys of many points of one part of a bench. It encodes what the points have in common only once,
// because a sweep may have a million points. It returns the same keys as the function Key.
type Keyer struct {
	before, after keyText // the bytes before and after the point's
	text          keyText // buffer for the current key
}

// NewKeyer returns a Keyer for the points of one part of a bench.
func NewKeyer(bench, part, version, backend string, options point.Point, inputs map[string]string) *Keyer {
	k := &Keyer{}
	// Every text is preceded by its length and every list by its count, so that different
	// arguments never give the same bytes.
	k.before.texts("kernbench key 1", bench, part, version, backend)
	k.after.point(options)
	k.after.inputs(inputs)
	return k
}

// Key returns the key of one point.
func (k *Keyer) Key(pt point.Point, ranks *int, env point.Env) string {
	k.text = append(k.text[:0], k.before...)
	h := &k.text
	if ranks == nil {
		h.count(0)
	} else {
		h.count(1)
		h.texts(strconv.Itoa(*ranks))
	}
	h.point(pt)
	h.env(env)
	*h = append(*h, k.after...)
	return h.sum()
}

// keyText is the input of a hash. Keys and fingerprints are stored in journals: after a change of the
// format, --resume would find none of the old rows.
type keyText []byte

func (h *keyText) count(n int) { *h = binary.LittleEndian.AppendUint64(*h, uint64(n)) }

// sum returns the first digits of the SHA-256 of the text.
func (h *keyText) sum() string {
	sum := sha256.Sum256(*h)
	return hex.EncodeToString(sum[:keyLen/2])
}

func (h *keyText) inputs(inputs map[string]string) {
	h.count(len(inputs))
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		h.texts(name, inputs[name])
	}
}

func (h *keyText) texts(texts ...string) {
	for _, t := range texts {
		h.count(len(t))
		*h = append(*h, t...)
	}
}

func (h *keyText) point(p point.Point) {
	h.count(len(p))
	for _, c := range sorted(p, func(a, b point.Coord) int { return cmp.Compare(a.Name, b.Name) }) {
		h.texts(c.Name, valueText(c.Value))
	}
}

func (h *keyText) env(e point.Env) {
	h.count(len(e))
	for _, v := range sorted(e, func(a, b point.EnvVar) int { return cmp.Compare(a.Name, b.Name) }) {
		if v.Set {
			h.texts(v.Name, "="+v.Value)
		} else {
			h.texts(v.Name, "")
		}
	}
}

// sorted returns the list in order. It makes a copy only if the list is not sorted.
func sorted[S ~[]E, E any](list S, compare func(a, b E) int) S {
	if slices.IsSortedFunc(list, compare) {
		return list
	}
	list = slices.Clone(list)
	slices.SortFunc(list, compare)
	return list
}

// valueText returns the same text for values that JSON cannot distinguish, so that a row has the same key
// after it was written and read. The size 64 B and the number 64.0 have the same text; the text "64" has
// another one.
func valueText(v point.Value) string {
	switch v.Kind() {
	case 0:
		return ""
	case point.Bool:
		return "b" + v.String()
	case point.Float:
		// JSON writes 2.0 as 2, which is read as an integer. NaN cannot be written.
		text, err := v.MarshalJSON()
		switch {
		case v.Float() == 0:
			return "n0" // also for -0
		case err != nil:
			return "n" + v.String()
		}
		return "n" + string(text)
	case point.Int, point.Bytes:
		return "n" + v.String()
	}
	return "s" + v.String()
}

// NewRunID returns the ID of a run that starts now, such as 20261115-014233-7f3a. IDs sort by time. The
// last part is random and distinguishes runs that start in the same second.
func NewRunID(now time.Time, random io.Reader) string {
	var tail [2]byte
	if _, err := io.ReadFull(random, tail[:]); err != nil {
		// Use the fraction of the second instead.
		binary.BigEndian.PutUint16(tail[:], uint16(now.Nanosecond()>>14))
	}
	return now.UTC().Format("20060102-150405-") + hex.EncodeToString(tail[:])
}
