package sparse

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// unpacked returns a reader of the text of a file, which may be compressed by gzip. In a tar archive it reads the first
// member that wanted accepts.
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
			return nil, fmt.Errorf("the archive has no matching file: it has %s", strings.Join(names, ", "))
		}
		if err != nil {
			return nil, fmt.Errorf("reading the archive: %w", err)
		}
		if h.Typeflag == tar.TypeReg && wanted(h.Name) {
			return bufio.NewReaderSize(&member{archive, in}, 1<<16), nil
		}
		names = append(names, h.Name)
	}
}

// member reads a member of an archive. At its end, it reads the rest of the archive, because the checksum of the
// compression comes last.
type member struct{ in, archive io.Reader }

func (m *member) Read(p []byte) (int, error) {
	n, err := m.in.Read(p)
	if errors.Is(err, io.EOF) {
		if _, bad := io.Copy(io.Discard, m.archive); bad != nil {
			err = fmt.Errorf("reading the rest of the archive: %w", bad)
		}
	}
	return n, err
}

// isMatrix reports whether a member of an archive is its matrix, NAME/NAME.mtx. Other members, such as NAME_b.mtx, are
// vectors.
func isMatrix(name string) bool {
	folder, file := path.Split(path.Clean(name))
	return file == path.Base(folder)+".mtx" || folder == "" && strings.HasSuffix(file, ".mtx")
}

// isVector reports whether a member of an archive is a right-hand side.
func isVector(name string) bool { return strings.HasSuffix(name, "_b.mtx") }
