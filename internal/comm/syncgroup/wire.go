package syncgroup

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// frame is one message of the stream protocol: a kind byte, the payload's
// length as four bytes, the payload. Integers are little-endian.
type frame struct {
	kind    byte
	payload []byte
}

const (
	frameHello    = 'h' // rank to hub: rank, size
	frameBarrier  = 'b' // rank to hub: arrived; hub to rank: all have arrived
	frameExchange = 'x' // rank to hub: values; hub to rank: for each rank a count and its values
	frameAbort    = 'a' // rank to hub: reason; hub to rank: rank, reason
	frameLeave    = 'l' // rank to hub: will send no more
)

// maxPayload holds MaxValues of one rank; with many ranks the sum must fit too.
const maxPayload = 1 << 30

// drainTime is how long a closing end waits for what it wrote to be taken.
const drainTime = time.Second

// wire reads and writes frames on one connection, each in a goroutine of its
// own, so that nobody who holds a wire ever blocks on a peer that is stuck.
type wire struct {
	conn    io.ReadWriteCloser
	out     chan frame
	written chan struct{} // closed when the writer has ended

	mu      sync.Mutex
	stopped bool // out is closed
}

// outbox is more than the protocol ever has under way on one wire: an end sends
// its next call only after the answer to the last, then an abort, then a leave.
const outbox = 8

// newWire calls receive for each frame, in order, and once with an error when
// the connection ends.
func newWire(conn io.ReadWriteCloser, receive func(frame, error)) *wire {
	w := &wire{conn: conn, out: make(chan frame, outbox), written: make(chan struct{})}
	go w.write()
	go func() {
		in := bufio.NewReader(conn)
		for {
			f, err := readFrame(in)
			receive(f, err)
			if err != nil {
				return
			}
		}
	}()
	return w
}

func (w *wire) write() {
	defer close(w.written)
	for f := range w.out {
		head := binary.LittleEndian.AppendUint32([]byte{f.kind}, uint32(len(f.payload)))
		if _, err := w.conn.Write(append(head, f.payload...)); err != nil {
			// The reader reports the broken connection; closing makes sure it sees it.
			w.conn.Close()
			return
		}
	}
}

// send queues a frame. What no longer fits goes to a peer that stopped reading.
func (w *wire) send(f frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	select {
	case w.out <- f:
	default:
	}
}

// close ends the connection once what was sent has been taken, or drainTime is over.
func (w *wire) close() error {
	w.mu.Lock()
	if !w.stopped {
		w.stopped = true
		close(w.out)
	}
	w.mu.Unlock()
	select {
	case <-w.written:
	case <-time.After(drainTime):
	}
	return w.conn.Close()
}

func readFrame(r io.Reader) (frame, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	length := binary.LittleEndian.Uint32(head[1:])
	if length > maxPayload {
		return frame{}, fmt.Errorf("frame %q of %d bytes: at most %d are allowed", head[0], length, maxPayload)
	}
	// ReadAll grows as bytes come: a length that lies costs no memory.
	payload, err := io.ReadAll(io.LimitReader(r, int64(length)))
	if err == nil && len(payload) < int(length) {
		err = io.ErrUnexpectedEOF
	}
	return frame{kind: head[0], payload: payload}, err
}

func encodeValues(dst []byte, values []int64) []byte {
	for _, v := range values {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

// encodeGathered is the hub's answer to an exchange.
func encodeGathered(perRank [][]byte) []byte {
	var dst []byte
	for _, values := range perRank {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(values)/8))
		dst = append(dst, values...)
	}
	return dst
}

var errMalformed = errors.New("malformed frame")

func decodeGathered(payload []byte, ranks int) ([][]int64, error) {
	result := make([][]int64, ranks)
	for r := range result {
		if len(payload) < 4 {
			return nil, errMalformed
		}
		count := int(binary.LittleEndian.Uint32(payload))
		payload = payload[4:]
		if count > len(payload)/8 {
			return nil, errMalformed
		}
		values := make([]int64, count)
		for i := range values {
			values[i] = int64(binary.LittleEndian.Uint64(payload[8*i:]))
		}
		result[r], payload = values, payload[8*count:]
	}
	if len(payload) != 0 {
		return nil, errMalformed
	}
	return result, nil
}

// encodeAbort is a word, the rank, and a text, the reason.
func encodeAbort(e *AbortedError) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(int32(e.Rank))), e.Reason...)
}

func decodeAbort(payload []byte) *AbortedError {
	if len(payload) < 4 {
		return &AbortedError{Rank: HubRank, Reason: errMalformed.Error()}
	}
	return &AbortedError{Rank: int(int32(binary.LittleEndian.Uint32(payload))), Reason: string(payload[4:])}
}

func encodeHello(rank, size int) []byte {
	return encodeValues(nil, []int64{int64(rank), int64(size)})
}
