package sparse

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strconv"
	"strings"
)

// unpacked is the text of a file that may be compressed by gzip, and may be an archive, of
// which the first member is read that wanted accepts.
func unpacked(r io.Reader, wanted func(name string) bool) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("decompressing: %w", err)
		}
		in = bufio.NewReaderSize(unzipped, 1<<16)
	}
	if head, _ := in.Peek(263); !bytes.HasSuffix(head, []byte("ustar")) && !bytes.HasSuffix(head, []byte("ustar\x00")) {
		return in, nil
	}
	archive := tar.NewReader(in)
	var names []string
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("the archive has no such file: it has %s", strings.Join(names, ", "))
		}
		if err != nil {
			return nil, fmt.Errorf("reading the archive: %w", err)
		}
		if h.Typeflag == tar.TypeReg && wanted(h.Name) {
			return bufio.NewReaderSize(archive, 1<<16), nil
		}
		names = append(names, h.Name)
	}
}

// isMatrix reports whether a member of an archive is its matrix: NAME/NAME.mtx, beside which
// NAME_b.mtx and the like have vectors.
func isMatrix(name string) bool {
	folder, file := path.Split(path.Clean(name))
	return file == path.Base(folder)+".mtx" || folder == "" && strings.HasSuffix(file, ".mtx")
}

// isVector reports whether a member of an archive is a right-hand side.
func isVector(name string) bool { return strings.HasSuffix(name, "_b.mtx") }

// ReadVector reads a vector in Matrix Market's array format, real or integer, plain, compressed
// by gzip, or as NAME_b.mtx in an archive of the SuiteSparse collection. Of several columns
// it takes the first. Errors name the line.
func ReadVector(r io.Reader) ([]float64, error) {
	in, err := unpacked(r, isVector)
	if err != nil {
		return nil, err
	}
	m := &mtxReader{in: in}
	v, err := m.vector()
	if err != nil {
		return nil, fmt.Errorf("vector file, line %d: %w", max(1, m.line), err)
	}
	return v, nil
}

func (m *mtxReader) vector() ([]float64, error) {
	text, err := m.next()
	if err != nil {
		return nil, fmt.Errorf("reading the banner: %w", err)
	}
	words := strings.Fields(strings.ToLower(string(text)))
	if len(words) != 5 || words[0] != "%%matrixmarket" || words[2] != "array" || words[3] != "real" && words[3] != "integer" || words[4] != "general" {
		return nil, fmt.Errorf("the banner is %q, want %q", text, "%%MatrixMarket matrix array real general")
	}
	if text, err = m.next(); err != nil {
		return nil, fmt.Errorf("reading the sizes: %w", err)
	}
	var rows, cols int
	if n, err := fmt.Sscan(string(text), &rows, &cols); n != 2 || err != nil || rows < 1 || cols < 1 || rows > math.MaxInt32 {
		return nil, fmt.Errorf("the sizes are %q, want rows and columns", text)
	}
	out := make([]float64, 0, min(rows, 1<<20)) // a header may promise more than there is
	for range rows {
		text, err := m.next()
		if err != nil {
			return nil, fmt.Errorf("reading value %d of %d: %w", len(out)+1, rows, err)
		}
		v, err := strconv.ParseFloat(string(text), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("value %q: want a finite number", text)
		}
		out = append(out, v)
	}
	return out, nil
}
