package instrument

import "github.com/kernbench/kernbench/dist"

// pieceBytes is the size of the host memory through which Overwrite and Inspect copy device memory. A copy of the
// whole buffer, as [dist.Buffer.Mirror] makes it, would need as much host memory as the device has.
const pieceBytes = 4 << 20

// Overwrite sets all elements of b. If the host can reach b, set is called once, with b itself. Otherwise set is
// called with one piece of host memory after the other and with the index in b of the piece's first element; it must
// set every element of the piece, because nothing is read from the device.
func Overwrite(b dist.Buffer, set func(piece dist.Buffer, first int)) error {
	return inPieces(b, func(piece dist.Buffer, m dist.DeviceMemory, first int) error {
		set(piece, first)
		if m == nil {
			return nil
		}
		return m.Write(b.Offset()+first*b.DType().Size(), piece.Bytes())
	})
}

// Inspect calls look with all elements of b, in the same pieces as [Overwrite]. It stops at the first error.
func Inspect(b dist.Buffer, look func(piece dist.Buffer, first int) error) error {
	return inPieces(b, func(piece dist.Buffer, m dist.DeviceMemory, first int) error {
		if m != nil {
			if err := m.Read(piece.Bytes(), b.Offset()+first*b.DType().Size()); err != nil {
				return err
			}
		}
		return look(piece, first)
	})
}

// inPieces calls f with b itself and no DeviceMemory, or with pieces of host memory that all share one allocation.
func inPieces(b dist.Buffer, f func(piece dist.Buffer, m dist.DeviceMemory, first int) error) error {
	m, onDevice := b.Memory().(dist.DeviceMemory)
	if !onDevice || b.Count() == 0 {
		return f(b, nil, 0)
	}
	pieceLen := pieceBytes / b.DType().Size()
	host := dist.Make(b.DType(), min(b.Count(), pieceLen))
	for first := 0; first < b.Count(); first += pieceLen {
		if err := f(host.Slice(0, min(pieceLen, b.Count()-first)), m, first); err != nil {
			return err
		}
	}
	return nil
}
