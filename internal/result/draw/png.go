package draw

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"image"
	"io"
)

// writePNG writes an opaque image as a PNG file with 8 bits per color. image/png tries five
// filters on every row, which suits photographs. Pages have flat colors and many equal rows:
// without those filters the files are smaller and take half the time.
func writePNG(w io.Writer, m *image.RGBA) error {
	size := m.Bounds().Size()
	header := binary.BigEndian.AppendUint32(nil, uint32(size.X))
	header = binary.BigEndian.AppendUint32(header, uint32(size.Y))
	header = append(header, 8, 2, 0, 0, 0) // 8 bits, red-green-blue, not interlaced
	rows, err := packRows(m)
	if err != nil {
		return err
	}
	file := []byte("\x89PNG\r\n\x1a\n")
	file = appendChunk(file, "IHDR", header)
	file = appendChunk(file, "IDAT", rows)
	file = appendChunk(file, "IEND", nil)
	_, err = w.Write(file)
	return err
}

// packRows compresses the rows of an image. Each begins with its filter: 2 means that the bytes
// are differences from the row above, and is used for equal rows; 0 means that they are colors.
func packRows(m *image.RGBA) ([]byte, error) {
	var packed bytes.Buffer
	z, err := zlib.NewWriterLevel(&packed, zlib.BestSpeed)
	if err != nil {
		return nil, err
	}
	size := m.Bounds().Size()
	row, above := make([]byte, 1+3*size.X), make([]byte, 1+3*size.X)
	equal := make([]byte, 1+3*size.X)
	equal[0] = 2
	for y := range size.Y {
		pixels := m.Pix[y*m.Stride:][:4*size.X]
		for x := range size.X {
			copy(row[1+3*x:], pixels[4*x:4*x+3])
		}
		out := row
		if y > 0 && bytes.Equal(row, above) {
			out = equal
		}
		if _, err := z.Write(out); err != nil {
			return nil, err
		}
		row, above = above, row
	}
	err = z.Close()
	return packed.Bytes(), err
}

// appendChunk appends a part of a PNG file: its length, name, data and checksum.
func appendChunk(file []byte, name string, data []byte) []byte {
	file = binary.BigEndian.AppendUint32(file, uint32(len(data)))
	start := len(file)
	file = append(append(file, name...), data...)
	return binary.BigEndian.AppendUint32(file, crc32.ChecksumIEEE(file[start:]))
}
