package journal

import (
	"maps"
	"slices"
	"strings"
)

// Inputs describes everything that produced a row, by name. Programs, interpreters, files and parts of
// the declaration have their SHA-256 as the value; variables and units have their own value. Messages
// show the names: "program ./mp.sh", "interpreter /bin/sh", "file common.sh", "command", "unit lat",
// "variable OMP_NUM_THREADS".
type Inputs map[string]string

// ContentPrefix begins the name of an input to which a value of the point or of an option refers, such
// as a swept file. Two points of the same build may have different ones.
const ContentPrefix = "content of "

// Fingerprint returns a hash of the inputs in hexadecimal digits, or "" for nil.
func (in Inputs) Fingerprint() string {
	if in == nil {
		return ""
	}
	var text keyText
	text.texts("kernbench inputs 1")
	text.inputs(in)
	return text.sum()
}

// Changed returns the sorted names of the inputs that differ between two sets. This includes names that
// only one set has.
func (in Inputs) Changed(other Inputs) (names []string) {
	for name, value := range in {
		if now, has := other[name]; !has || now != value {
			names = append(names, name)
		}
	}
	for name := range other {
		if _, has := in[name]; !has {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Conflicts reports whether any name that is in both sets has different values.
func (in Inputs) Conflicts(other Inputs) bool {
	for name, value := range in {
		if now, has := other[name]; has && now != value {
			return true
		}
	}
	return false
}

// Common returns the inputs that all points of a build share: all except contents.
func (in Inputs) Common() Inputs {
	out := maps.Clone(in)
	maps.DeleteFunc(out, func(name, _ string) bool { return strings.HasPrefix(name, ContentPrefix) })
	return out
}

// InputsOf returns the inputs of a row, or nil if they were not recorded.
func (h *Header) InputsOf(r *Row) Inputs { return h.Fingerprints[r.Inputs] }
