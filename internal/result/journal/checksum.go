package journal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrDamaged is the error of a Problem whose line does not match its checksum.
var ErrDamaged = errors.New("the line does not match its checksum")

// A line ends with its checksum as the last member: ,"crc":"1a2b3c4d"}. It is the CRC-32C of all
// bytes before that comma, in lower-case hexadecimal digits.
const (
	crcMember = `,"crc":"`
	crcDigits = 8
	crcLen    = len(crcMember) + crcDigits + len(`"}`)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendChecksum adds the checksum to a line that ends in a brace and a newline.
func appendChecksum(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte("}\n"))
	return fmt.Appendf(line, "%s%08x\"}\n", crcMember, crc32.Checksum(line, castagnoli))
}

// verifyChecksum verifies the checksum of a line and removes it in place. checked is false for a line
// without a checksum: early versions wrote none. The decoded record is the same with and without this
// member.
func verifyChecksum(line []byte) (record []byte, checked bool, err error) {
	n := len(line) - crcLen
	if n < 1 || line[n] != crcMember[0] || line[n+1] != crcMember[1] || line[len(line)-2] != '"' {
		return line, false, nil
	}
	if string(line[n:n+len(crcMember)]) != crcMember {
		// If the damage is in the name of the member, the line seems to have no checksum. No record ends
		// with another member that looks like this, so it is a damaged checksum.
		if string(line[n+5:n+len(crcMember)]) == crcMember[5:] && isHex(line[n+len(crcMember):len(line)-2]) {
			return line, true, ErrDamaged
		}
		return line, false, nil
	}
	var want [crcDigits / 2]byte
	sum := crc32.Checksum(line[:n], castagnoli)
	want[0], want[1], want[2], want[3] = byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum)
	var digits [crcDigits]byte
	hex.Encode(digits[:], want[:])
	if !bytes.Equal(digits[:], line[n+len(crcMember):len(line)-2]) || line[len(line)-1] != '}' {
		return line, true, ErrDamaged
	}
	line[n] = '}'
	return line[:n+1], true, nil
}

func isHex(text []byte) bool {
	for _, c := range text {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}
