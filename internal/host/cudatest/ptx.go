package cudatest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// StalePTX returns an error if folder/ptx/NAME.ptx was not compiled from the present sources. `make
// ptx` writes a SHA-256 into the first line of the PTX. It covers the headers of the included folders,
// then the headers of the folder itself, each set sorted by name, and at last NAME.cu.
func StalePTX(folder fs.FS, name string, included ...fs.FS) error {
	sum := sha256.New()
	for _, from := range append(included, folder) {
		headers, err := fs.Glob(from, "*.cuh")
		if err != nil {
			return err
		}
		slices.Sort(headers)
		for _, header := range headers {
			if err := write(sum, from, header); err != nil {
				return err
			}
		}
	}
	if err := write(sum, folder, name+".cu"); err != nil {
		return err
	}
	ptx, err := fs.ReadFile(folder, "ptx/"+name+".ptx")
	if err != nil {
		return err
	}
	if line, _, _ := bytes.Cut(ptx, []byte("\n")); string(line) != fmt.Sprintf("// source: sha256 %x", sum.Sum(nil)) {
		return fmt.Errorf("%s.ptx begins with %q, its sources have %.12x: run make ptx where nvcc is", name, line,
			sum.Sum(nil))
	}
	return nil
}

func write(to io.Writer, folder fs.FS, name string) error {
	text, err := fs.ReadFile(folder, name)
	if err != nil {
		return err
	}
	_, err = to.Write(text)
	return err
}
