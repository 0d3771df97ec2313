package chakra

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/infile"
)

// suffix ends the names of trace files. The names of compressed files may end with the second suffix in addition.
const (
	suffix     = ".et"
	compressed = ".gz"
)

// FileName returns the name of a rank's trace.
func FileName(prefix string, rank int) string { return fmt.Sprintf("%s.%d%s", prefix, rank, suffix) }

// Files returns the names of the traces PREFIX.0.et, PREFIX.1.et and so on, or PREFIX.0.et.gz. It returns an error if
// there are none or one is missing.
func Files(prefix string) ([]string, error) {
	folder, base := filepath.Split(prefix)
	entries, err := os.ReadDir(filepath.Join(folder, "."))
	if err != nil {
		return nil, fmt.Errorf("looking for the traces %s.RANK%s: %w", prefix, suffix, err)
	}
	ranks := map[int]string{} // the suffix of the compressed file, or ""
	for _, e := range entries {
		middle, ok := strings.CutPrefix(e.Name(), base+".")
		middle, packed := strings.CutSuffix(middle, compressed)
		middle, is := strings.CutSuffix(middle, suffix)
		rank, err := strconv.Atoi(middle)
		if _, plain := ranks[rank]; ok && is && err == nil && strconv.Itoa(rank) == middle && rank >= 0 && !plain {
			if ranks[rank] = ""; packed { // entries are sorted, so the file that is not compressed comes first
				ranks[rank] = compressed
			}
		}
	}
	if len(ranks) == 0 {
		return nil, fmt.Errorf("there is no trace %s: a trace is a file PREFIX.RANK%s for each rank, and PREFIX is given",
			FileName(prefix, 0), suffix)
	}
	files := make([]string, 0, len(ranks))
	last := slices.Max(slices.Collect(maps.Keys(ranks)))
	for rank := range last + 1 {
		end, ok := ranks[rank]
		if !ok {
			return nil, fmt.Errorf("the trace %s of rank %d is missing: there are %d traces, up to rank %d",
				FileName(prefix, rank), rank, len(ranks), last)
		}
		files = append(files, FileName(prefix, rank)+end)
	}
	return files, nil
}

// Read reads the traces of all ranks and checks each of them.
func Read(prefix string) ([]*Trace, error) {
	files, err := Files(prefix)
	if err != nil {
		return nil, err
	}
	r := reader{names: map[string]string{}}
	traces := make([]*Trace, len(files))
	for rank, file := range files {
		data, err := infile.Read(file, infile.Trace)
		if err != nil {
			return nil, fmt.Errorf("reading the trace of rank %d: %w", rank, err)
		}
		if traces[rank], err = r.trace(file, rank, data); err != nil {
			return nil, err
		}
		if err := traces[rank].Check(len(files)); err != nil {
			return nil, err
		}
	}
	return traces, nil
}

// Parse reads the content of a trace file. The caller checks the trace.
func Parse(file string, rank int, data []byte) (*Trace, error) {
	r := reader{names: map[string]string{}}
	return r.trace(file, rank, data)
}

// reader reads traces. All of them share the memory of equal names.
type reader struct {
	names map[string]string
}

// intern returns the text of b, without allocating if it occurred before.
func (r *reader) intern(b []byte) string {
	if s, ok := r.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(s) <= internLimit {
		r.names[s] = s
	}
	return s
}

// internLimit is the longest text that is likely to occur again.
const internLimit = 256

// trace reads a file.
func (r *reader) trace(file string, rank int, data []byte) (*Trace, error) {
	t := &Trace{File: file, Rank: rank, unknown: map[string]int{}}
	data, err := decompress(file, data)
	if err != nil {
		return nil, err
	}
	messages, err := split(file, data)
	if err != nil {
		return nil, err
	}
	if len(messages) == 0 {
		return nil, fmt.Errorf("%s is empty: want a metadata message and nodes", file)
	}
	withMetadata := !isNode(messages[0])
	if withMetadata {
		if err := r.metadata(t, messages[0]); err != nil {
			return nil, fmt.Errorf("%s: message 1, the metadata: %w", file, err)
		}
		messages = messages[1:]
	}
	old, number := !withMetadata && isFirstSchema(messages), 1
	if withMetadata {
		number++
	}
	t.Nodes = make([]Node, len(messages))
	for i, m := range messages {
		n := &t.Nodes[i]
		if old {
			err = r.oldNode(t, n, m)
		} else {
			err = r.node(t, n, m)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: message %d, %v: %w", file, i+number, n, err)
		}
	}
	return t, nil
}

// maxNodes is the largest number of nodes of a trace. They take about 1 GiB of memory.
const maxNodes = 1 << 22

// split cuts a file into its messages.
func split(file string, data []byte) (messages [][]byte, err error) {
	for at := 0; at < len(data); {
		length, n := protowire.ConsumeVarint(data[at:])
		number := len(messages) + 1
		switch {
		case n < 0 && len(data)-at < 10:
			return nil, fmt.Errorf("%s is truncated: it ends at byte %d, within the length of message %d", file, len(data),
				number)
		case n < 0:
			return nil, fmt.Errorf("%s: byte %d: the length of message %d is not a varint", file, at, number)
		case length > uint64(len(data)-at-n):
			return nil, fmt.Errorf("%s is truncated or has a wrong length at byte %d: message %d should have %d bytes, "+
				"and %d are left", file, at, number, length, len(data)-at-n)
		}
		switch {
		case length == 0 && number > 1:
			return nil, fmt.Errorf("%s: byte %d: message %d is empty: want a node", file, at, number)
		case number > maxNodes:
			return nil, fmt.Errorf("%s has more than %d nodes", file, maxNodes)
		}
		messages = append(messages, data[at+n:at+n+int(length)])
		at += n + int(length)
	}
	return messages, nil
}

// decompress returns the content of a file, which may be compressed by gzip: Chakra's own tools read such files too.
func decompress(file string, data []byte) ([]byte, error) {
	// No trace begins with the bytes of gzip: its first field would have wire type 3, which traces do not use.
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	in, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: decompressing: %w", file, err)
	}
	out, err := io.ReadAll(io.LimitReader(in, infile.Trace+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: decompressing after %d bytes: %w", file, len(out), err)
	case len(out) > infile.Trace:
		return nil, fmt.Errorf("%s has more than %d bytes when it is decompressed", file, infile.Trace)
	}
	return out, nil
}

// isNode reports whether the first message of a file is a node and not metadata. Field 1 of a node is a number, and
// field 1 of metadata is not. A node with the id 0 may lack it, but has a type.
func isNode(message []byte) bool {
	id, typed := missing, false
	_ = fields(message, func(f field) error {
		switch f.number {
		case 1:
			id = int(f.wire)
		case 3:
			typed = f.wire == protowire.VarintType
		}
		return nil
	})
	return id == int(protowire.VarintType) || id == missing && typed
}

// metadata reads a GlobalMetadata message. Before version 0.0.2 of the schema, field 1 was an attribute.
func (r *reader) metadata(t *Trace, message []byte) error {
	return fields(message, func(f field) error {
		number := f.number
		if number == 1 && len(f.data) > 1 && f.data[0] == 0x0a {
			number = 2
		}
		switch {
		case number == 1 && f.wire == protowire.BytesType:
			t.Version = string(f.data)
		case number == 2 && f.wire == protowire.BytesType:
			return r.attribute(t, f.data, func(a *Attr) error {
				t.Attrs = append(t.Attrs, a.clone())
				return nil
			})
		default:
			t.unknown[fmt.Sprintf("field %d of the metadata", f.number)]++
		}
		return nil
	})
}

// node reads a Node message.
func (r *reader) node(t *Trace, n *Node, message []byte) error {
	var attrs [][]byte
	err := fields(message, func(f field) (err error) {
		bytes := f.wire == protowire.BytesType
		switch {
		case f.number == 1 && !bytes:
			n.ID = f.num
		case f.number == 2 && bytes:
			n.Name = r.intern(f.data)
		case f.number == 3 && !bytes:
			n.Type = NodeType(int32(f.num))
		case f.number == 4:
			n.CtrlDeps, err = appendIDs(n.CtrlDeps, f)
		case f.number == 5:
			n.DataDeps, err = appendIDs(n.DataDeps, f)
		case f.number == 6 && !bytes:
			n.Start = event.Time(min(f.num, uint64(maxStart/event.Microsecond))) * event.Microsecond
		case f.number == 7 && !bytes:
			n.Duration = micros(f.num)
		case f.number == 8 && bytes:
			n.Inputs, err = r.io(f.data)
		case f.number == 9 && bytes:
			n.Outputs, err = r.io(f.data)
		case f.number == 10 && bytes:
			attrs = append(attrs, f.data)
		default:
			t.unknown[fmt.Sprintf("field %d of a node", f.number)]++
		}
		return err
	})
	if err != nil {
		return err
	}
	n.Src, n.Dst = defaultPeers(n.Type, t.Rank)
	n.Collective = missing
	for _, b := range attrs {
		if err := r.attribute(t, b, n.take); err != nil {
			return err
		}
	}
	return n.complete()
}

// attribute reads an attribute and passes it on if it has a value.
func (r *reader) attribute(t *Trace, message []byte, take func(*Attr) error) error {
	a, valued, err := r.attr(message)
	switch {
	case err != nil:
		return fmt.Errorf("attribute %q: %w", a.Name, err)
	case !valued:
		t.unknown["attribute "+a.Name+" without a value"]++
		return nil
	}
	return take(&a)
}

// missing marks attributes that a node does not have.
const missing = -1

// defaultPeers returns the ranks of a send or receive that has no comm_src or comm_dst.
func defaultPeers(t NodeType, rank int) (src, dst int) {
	switch t {
	case Send:
		return rank, missing
	case Recv:
		return missing, rank
	}
	return 0, 0
}

// complete returns an error if an attribute that the node's type needs is missing.
func (n *Node) complete() error {
	switch {
	case n.Type == Coll && n.Collective == missing:
		return errors.New("a COMM_COLL node needs the attribute comm_type")
	case n.Type == Send && n.Dst == missing:
		return errors.New("a COMM_SEND node needs the attribute comm_dst")
	case n.Type == Recv && n.Src == missing:
		return errors.New("a COMM_RECV node needs the attribute comm_src")
	case n.Type != Coll:
		n.Collective = 0
	}
	return nil
}

// micros converts microseconds. Times that are too long become the longest one, which Check rejects.
func micros(v uint64) event.Time {
	return event.Time(min(v, uint64(maxDuration/event.Microsecond)+1)) * event.Microsecond
}

func (r *reader) io(b []byte) (*IO, error) {
	var io IO
	err := fields(b, func(f field) error {
		switch f.number {
		case 1:
			io.Values = r.intern(f.data)
		case 2:
			io.Shapes = r.intern(f.data)
		case 3:
			io.Types = r.intern(f.data)
		}
		return nil
	})
	return &io, err
}
