// Package imports converts results of other tools, such as the tables of nccl-tests, into
// journal rows, so that every view, comparison and check of kernbench works on them. A
// [Format] is one file with one registration.
//
// It is strict. The user must supply what a file does not say. Text that cannot be read is
// an error with the number of the line, and a result that contradicts itself becomes a
// failed row. The package opens no files.
package imports

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/registry"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Given holds the properties of a file that the user states on the command line. They complete the
// file's own text and must not contradict it.
type Given struct {
	Op        string
	Ranks     int
	Algorithm string
	DType     string
	Backend   string
}

// Record is one result of another tool.
type Record struct {
	Line int // line number in the file, from 1

	Op        string // allreduce, allgather...
	Algorithm string
	DType     string // kernbench's name, or the tool's if kernbench has no such type
	Reduction string // "" if the operation does not reduce
	Ranks     int    // 0 if unknown
	Size      int64  // in bytes, as nccl-tests counts them
	InPlace   bool
	Backend   string
	Extra     point.Point // further coordinates

	Status  journal.Status
	Reason  string
	Kind    journal.Kind
	Samples int
	Metrics map[string]float64 // time_us and the tool's other numbers
	Count   string             // column count of nccl-tests; "" if there is none
	Low     float64            // 95 % interval of time_us; 0 if unknown
	High    float64
	Details map[string]string
	Host    string
	Remarks journal.Conditions // shown with this result
}

// File is the content of one file.
type File struct {
	Records []Record
	Notes   []string // shown with the results of the file
	// Failure is the message of the tool or its launcher that the run did not end well, with its
	// line number; "" if there is none.
	Failure string
}

// Format is a file format of another tool. Each is registered in a file of its own; the
// command line takes the values and help of its flags from the registry.
type Format struct {
	Name    string // value of --as
	Help    string // one line that describes it
	Example string // the part of an example command after the format's name
	// Read parses a file. The operation and element type in g have kernbench's names.
	Read func(text string, g Given) (File, error)
}

// Formats is the registry of import formats.
var Formats = registry.New("import format", func(f Format) registry.Entry {
	return registry.Entry{Name: f.Name, Help: f.Help}
})

// Read parses the text of a file in the named format. Errors begin with the file's name and
// the line number.
func Read(format, name, text string, g Given) (File, error) {
	known, err := Formats.Lookup(format)
	if err != nil {
		return File{}, err
	}
	text = strings.TrimPrefix(text, "\uFEFF") // the byte order mark of spreadsheets
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
	TellApart([]File{f})
	f.check()
	f.Notes = append(f.Notes, damaged(text)...)
	return f, nil
}

// deviceName is the detail with the device of a result, and the coordinate that it becomes if there are several.
const deviceName = "device"

// TellApart makes the device a coordinate of all results that name theirs, if the files have results of several
// devices. Without it, results of two GPUs would be trials of one point.
func TellApart(files []File) {
	var devices lists.Set[string]
	for _, f := range files {
		for _, rec := range f.Records {
			if name := rec.Details[deviceName]; name != "" {
				devices.Add(name)
			}
		}
	}
	if len(devices.List) < 2 {
		return
	}
	for _, f := range files {
		for i := range f.Records {
			rec := &f.Records[i]
			name := rec.Details[deviceName]
			if _, has := rec.Extra.Get(deviceName); name != "" && !has {
				rec.Extra = append(slices.Clip(rec.Extra), point.Coord{Name: deviceName, Value: point.StringValue(name)})
			}
		}
	}
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

// fault is an error at a line. Read adds the file's name.
type fault struct {
	line int
	err  error
}

func (f *fault) Error() string { return fmt.Sprintf("%d: %v", f.line, f.err) }
func (f *fault) Unwrap() error { return f.err }

// LineError returns an error at a line of the file, counted from 1.
func LineError(line int, format string, args ...any) error {
	return &fault{line, fmt.Errorf(format, args...)}
}

// settle returns the value of a property that the file, the user or both give. flag is the
// name of the user's flag. It fails if they differ.
func settle[T comparable](flag string, found, given T) (value T, err error) {
	var unknown T
	switch {
	case found == unknown:
		return given, nil
	case given == unknown || given == found:
		return found, nil
	}
	return unknown, fmt.Errorf("the file says %s %v, --%s says %v", flag, found, flag, given)
}

// ops maps the tools' names of operations, in lower case and without punctuation, to
// kernbench's.
var ops = map[string]string{
	"allreduce": "allreduce", "reducescatter": "reduce_scatter", "allgather": "allgather",
	"broadcast": "broadcast", "bcast": "broadcast", "reduce": "reduce", "gather": "gather", "scatter": "scatter",
	"alltoall": "alltoall", "alltoallpersonalizedexchange": "alltoall", "sendrecv": "sendrecv", "barrier": "barrier",
}

// opNamed returns kernbench's name of an operation, and whether it is known.
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

// opGiven returns kernbench's name of the operation that the user names.
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

// typeNames maps the tools' names of element types to kernbench's. Names that dtype.Parse
// accepts are not in it.
var typeNames = map[string]string{"double": "f64", "float": "f32", "half": "f16", "bfloat16": "bf16", "int64": "i64",
	"int32": "i32", "uint8": "u8", "mpi_double": "f64", "mpi_float": "f32", "mpi_int": "i32", "mpi_unsigned_char": "u8",
	"mpi_char": "i8"}

// typeNamed returns kernbench's name of an element type, or the tool's if there is none.
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
