package cudatest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"slices"
)

// StalePTX says why ptx/NAME.ptx of a folder of kernels is not what `make ptx` makes of NAME.cu and the
// folder's headers: its first line names the hash of these.
func StalePTX(folder fs.FS, name string) error {
	headers, err := fs.Glob(folder, "*.cuh")
	if err != nil {
		return err
	}
	slices.Sort(headers)
	sum := sha256.New()
	for _, source := range append(headers, name+".cu") {
		text, err := fs.ReadFile(folder, source)
		if err != nil {
			return err
		}
		sum.Write(text)
	}
	ptx, err := fs.ReadFile(folder, "ptx/"+name+".ptx")
	if err != nil {
		return err
	}
	if line, _, _ := bytes.Cut(ptx, []byte("\n")); string(line) != fmt.Sprintf("// source: sha256 %x", sum.Sum(nil)) {
		return fmt.Errorf("%s.ptx begins with %q, its sources have %.12x: run make ptx where nvcc is", name, line, sum.Sum(nil))
	}
	return nil
}
