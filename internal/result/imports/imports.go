// Package imports reads what other tools wrote about collectives, such as the
// tables of nccl-tests, and makes journal rows of it, so that every view,
// comparison and check of kernbench works on other people's numbers. A [Format]
// is one file and one registration.
//
// It is strict: what a file says is taken exactly, what it does not say must be
// given, what cannot be read is an error with the number of the line, and what
// contradicts itself a failed row. It opens no files.
package imports

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/registry"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Given is what the user says about a file besides its text: it fills in what
// the file leaves open, and must not contradict it.
type Given struct {
	Op        string
	Ranks     int
	Algorithm string
	DType     string
	Backend   string
}

// Record is one result of another tool.
type Record struct {
	Line int // in the file, from 1

	Op        string // allreduce, allgather...
	Algorithm string
	DType     string // kernbench's name, or the tool's own for types kernbench lacks
	Reduction string // "" for operations that reduce nothing
	Ranks     int    // 0 when nobody says
	Size      int64  // bytes, as nccl-tests counts them
	InPlace   bool
	Backend   string
	Extra     point.Point // further coordinates

	Status  journal.Status
	Reason  string
	Kind    journal.Kind
	Samples int
	Metrics map[string]float64 // time_us and what else the tool prints
	Low     float64            // 95 % interval of time_us; 0 when unknown
	High    float64
	Details map[string]string
	Host    string
	// Warnings are what a reader of this one number should know.
	Warnings []string
}

// File is what was found in one file.
type File struct {
	Records []Record
	Notes   []string // what a reader of the numbers should know
}

// Format is how another tool writes its results. Each is a file of its own that
// registers it; the command line takes its flags' values and its help from here.
type Format struct {
	Name    string // the word of --as
	Help    string // one line: what it is
	Example string // the rest of an example command after the format's name
	// Read turns a file's text into records. Operation and element type of what
	// the user says have kernbench's names already.
	Read func(text string, g Given) (File, error)
}

// Formats is the registry of import formats.
var Formats = registry.New("import format", func(f Format) registry.Entry {
	return registry.Entry{Name: f.Name, Help: f.Help}
})

// Read reads a file's text in the named format. Errors begin with the name and
// the number of the line.
func Read(format, name, text string, g Given) (File, error) {
	known, err := Formats.Lookup(format)
	if err != nil {
		return File{}, err
	}
	f, err := known.read(tags.ReplaceAllString(text, ""), g)
	if err != nil {
		if _, is := errors.AsType[*fault](err); is {
			return File{}, fmt.Errorf("%s:%w", name, err)
		}
		return File{}, fmt.Errorf("%s: %w", name, err)
	}
	if len(f.Records) == 0 {
		return File{}, fmt.Errorf("%s: no result of %s in it", name, format)
	}
	f.check()
	f.Notes = append(f.Notes, damaged(text)...)
	return f, nil
}

func (f Format) read(text string, g Given) (_ File, err error) {
	if g.Op, err = opGiven(g.Op); err != nil {
		return File{}, err
	}
	if g.DType != "" {
		g.DType = typeNamed(g.DType)
	}
	return f.Read(text, g)
}

// fault is an error at a line; Read puts the file's name before it.
type fault struct {
	line int
	err  error
}

func (f *fault) Error() string { return fmt.Sprintf("%d: %v", f.line, f.err) }
func (f *fault) Unwrap() error { return f.err }

// LineError is an error at a line of the file, counted from 1.
func LineError(line int, format string, args ...any) error {
	return &fault{line, fmt.Errorf(format, args...)}
}

// settle joins what the file and the user say about one property.
func settle(what, found, given string) (string, error) {
	switch {
	case found == "":
		return given, nil
	case given == "" || given == found:
		return found, nil
	}
	return "", fmt.Errorf("the file says %s %s, --%s says %s", what, found, what, given)
}

func settleRanks(found, given int) (int, error) {
	switch {
	case found == 0:
		return given, nil
	case given == 0 || given == found:
		return found, nil
	}
	return 0, fmt.Errorf("the file says %d ranks, --ranks says %d", found, given)
}

// ops maps the names that tools give to the operations, written in lower case
// without punctuation, to kernbench's.
var ops = map[string]string{
	"allreduce": "allreduce", "reducescatter": "reduce_scatter", "allgather": "allgather", "broadcast": "broadcast",
	"bcast":  "broadcast",
	"reduce": "reduce", "alltoall": "alltoall", "alltoallpersonalizedexchange": "alltoall", "gather": "gather",
	"scatter":  "scatter",
	"sendrecv": "sendrecv", "barrier": "barrier",
}

// opNamed finds the operation that a tool's name means.
func opNamed(name string) (string, bool) {
	plain := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(name))
	op, known := ops[plain]
	return op, known
}

// opGiven checks the operation that the user names.
func opGiven(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	op, known := opNamed(name)
	if !known {
		return "", suggest.Unknown("op", name, slices.Compact(slices.Sorted(maps.Values(ops))))
	}
	return op, nil
}

// typeNames maps tools' names of element types to kernbench's where its own
// parser does not know them.
var typeNames = map[string]string{"double": "f64", "float": "f32", "half": "f16", "bfloat16": "bf16", "int64": "i64",
	"int32": "i32", "uint8": "u8",
	"mpi_double": "f64", "mpi_float": "f32", "mpi_int": "i32", "mpi_unsigned_char": "u8", "mpi_char": "i8"}

// typeNamed is kernbench's name of a type, or the tool's own.
func typeNamed(name string) string {
	low := strings.ToLower(name)
	if n, known := typeNames[low]; known {
		return n
	}
	if d, err := dtype.Parse(low); err == nil {
		return d.String()
	}
	return low
}
