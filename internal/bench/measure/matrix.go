package measure

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Matrix holds one duration in picoseconds per iteration and rank.
type Matrix struct {
	ranks int
	data  []int64 // row by row: all ranks of iteration 0, then of 1, ...
}

// NewMatrix returns an empty matrix with the given number of columns.
func NewMatrix(ranks int) Matrix { return Matrix{ranks: ranks} }

// Ranks returns the number of columns.
func (m Matrix) Ranks() int { return m.ranks }

// Iterations returns the number of rows.
func (m Matrix) Iterations() int {
	if m.ranks == 0 {
		return 0
	}
	return len(m.data) / m.ranks
}

// At returns the duration of one iteration on one rank.
func (m Matrix) At(iteration, rank int) int64 { return m.data[iteration*m.ranks+rank] }

// Row returns the durations of one iteration by rank. It is not a copy.
func (m Matrix) Row(iteration int) []int64 {
	return m.data[iteration*m.ranks : (iteration+1)*m.ranks]
}

// maxima returns the slowest rank's duration of each iteration.
func (m Matrix) maxima() []int64 {
	maxima := make([]int64, m.Iterations())
	for i := range maxima {
		maxima[i] = slices.Max(m.Row(i))
	}
	return maxima
}

// The encoding is the magic, a version byte, iterations and ranks as unsigned varints, and then,
// row by row, each duration as a signed (zig-zag) varint of its difference from the same rank's
// duration in the previous row. Successive durations are similar, so most take three bytes instead
// of eight.
const (
	matrixMagic   = "KBSM"
	matrixVersion = 1
	// maxMatrixRanks limits the ranks of a matrix without rows. In any other matrix, the length of
	// the input limits them.
	maxMatrixRanks = 1 << 20
)

// MarshalBinary encodes the matrix.
func (m Matrix) MarshalBinary() ([]byte, error) {
	if m.ranks > maxMatrixRanks {
		return nil, fmt.Errorf("encoding samples: %d ranks: at most %d", m.ranks, maxMatrixRanks)
	}
	b := make([]byte, 0, len(matrixMagic)+16+3*len(m.data))
	b = append(b, matrixMagic...)
	b = append(b, matrixVersion)
	b = binary.AppendUvarint(b, uint64(m.Iterations()))
	b = binary.AppendUvarint(b, uint64(m.ranks))
	for i, d := range m.data {
		if i >= m.ranks {
			d -= m.data[i-m.ranks]
		}
		b = binary.AppendVarint(b, d)
	}
	return b, nil
}

// UnmarshalBinary decodes the output of MarshalBinary. It allocates at most eight times the size of the
// input, even if the input is malicious.
func (m *Matrix) UnmarshalBinary(b []byte) error {
	const head = len(matrixMagic) + 1
	if len(b) < head || string(b[:len(matrixMagic)]) != matrixMagic {
		return errors.New("decoding samples: not a sample matrix: it does not start with " + matrixMagic)
	}
	if v := b[len(matrixMagic)]; v != matrixVersion {
		return fmt.Errorf("decoding samples: version %d, this program reads %d", v, matrixVersion)
	}
	r := bytes.NewReader(b[head:])
	iterations, err := binary.ReadUvarint(r)
	ranks, err2 := binary.ReadUvarint(r)
	// Each duration takes at least one byte, so this bounds the product as well.
	left := uint64(r.Len())
	switch {
	case err != nil || err2 != nil || ranks > maxMatrixRanks:
		return errTruncated
	case iterations > 0 && (ranks == 0 || iterations > left/ranks):
		return fmt.Errorf("decoding samples: %d bytes cannot hold %d iterations of %d ranks", left, iterations, ranks)
	}
	data := make([]int64, iterations*ranks)
	for i := range data {
		if data[i], err = binary.ReadVarint(r); err != nil {
			return errTruncated
		}
		if before := i - int(ranks); before >= 0 {
			data[i] += data[before]
		}
	}
	if r.Len() != 0 {
		return errTruncated
	}
	m.ranks, m.data = int(ranks), data
	return nil
}

var errTruncated = errors.New("decoding samples: the matrix is truncated or followed by other data")
