package journal

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
)

var (
	// ErrDamaged is the error of a Problem whose line does not match its checksum, or has none.
	ErrDamaged = errors.New("the line does not match its checksum")
	// ErrChain is the error of a Problem whose row, or end of a run, does not follow the row before it.
	ErrChain = errors.New("rows of the run are missing before this line, or were added")
)

// A line ends with its seal: ,"chain":"5e6f7a8b","crc":"1a2b3c4d"}. The last member is the checksum, the CRC-32C of
// all bytes before its comma, in lower-case hexadecimal digits. The chain is the checksum of the run's previous row. It
// is part of rows and ends that have one before them. A checksum covers the chain too, so it depends on all rows of the
// run up to its own.
const (
	chainMember = `,"chain":"`
	crcMember   = `,"crc":"`
	crcDigits   = 8
	crcLen      = len(crcMember) + crcDigits + len(`"}`)
	chainLen    = len(chainMember) + crcDigits + len(`"`)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal adds the chain, unless it is empty, and the checksum to a line that ends in a brace and a newline.
func seal(line []byte, chain string) []byte {
	line = bytes.TrimSuffix(line, []byte("}\n"))
	if chain != "" {
		line = fmt.Appendf(line, `%s%s"`, chainMember, chain)
	}
	return fmt.Appendf(line, "%s%08x\"}\n", crcMember, crc32.Checksum(line, castagnoli))
}

// unseal verifies the checksum of a line and removes chain and checksum in place. The decoded record is the same with
// and without them.
func unseal(line []byte) (record []byte, chain, sum string, err error) {
	n := len(line) - crcLen
	if n < 1 || string(line[n:n+len(crcMember)]) != crcMember || string(line[len(line)-2:]) != `"}` {
		return line, "", "", ErrDamaged
	}
	sum = string(line[n+len(crcMember) : len(line)-2])
	if sum != fmt.Sprintf("%08x", crc32.Checksum(line[:n], castagnoli)) {
		return line, "", "", ErrDamaged
	}
	if at := n - chainLen; at > 0 && string(line[at:at+len(chainMember)]) == chainMember {
		chain, n = string(line[at+len(chainMember):n-1]), at
	}
	line[n] = '}'
	return line[:n+1], chain, sum, nil
}

// chainer follows the chains of rows. For each run it has the checksum of the last row, or chainUnknown.
type chainer map[string]string

// chainUnknown stands for the checksum of a damaged row. Any row may follow.
const chainUnknown = "?"

// follows reports whether a record with a chain follows the last row of its run.
func (c chainer) follows(run, chain string) bool { return c[run] == chain || c[run] == chainUnknown }

// addLine notes the checksum of a line if it is an intact row. It changes the line.
func (c chainer) addLine(line []byte) {
	if !bytes.HasPrefix(line, rowStart) {
		return
	}
	m := runMember.FindSubmatch(line)
	if _, _, sum, err := unseal(bytes.TrimSpace(line)); err == nil && m != nil {
		c[string(m[1])] = sum
	}
}
