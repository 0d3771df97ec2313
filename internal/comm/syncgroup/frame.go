package syncgroup

import (
	"encoding/binary"
	"errors"
)

// frame is one message between a rank and the hub, sent as a kind byte and the
// payload. Integers are little-endian.
type frame struct {
	kind    byte
	payload []byte
}

const (
	frameBarrier  = 'b' // rank to hub: arrived; hub to rank: all have arrived
	frameExchange = 'x' // rank to hub: data; hub to rank: for each rank a length and its data
	frameAbort    = 'a' // rank to hub: reason; hub to rank: rank, reason
	frameLeave    = 'l' // rank to hub: will send no more
)

// maxPayload holds MaxBytes of one rank; with many ranks the sum must fit too. Together with the kind byte it is the
// largest frame of a connection.
const maxPayload = 1<<30 - 1

var errMalformed = errors.New("malformed frame")

func (f frame) MarshalBinary() ([]byte, error) {
	return append([]byte{f.kind}, f.payload...), nil
}

func (f *frame) UnmarshalBinary(data []byte) error {
	if len(data) == 0 {
		return errMalformed
	}
	f.kind, f.payload = data[0], data[1:]
	return nil
}

// encodeGathered returns the hub's answer to an exchange.
func encodeGathered(perRank [][]byte) []byte {
	var dst []byte
	for _, data := range perRank {
		dst = append(binary.LittleEndian.AppendUint32(dst, uint32(len(data))), data...)
	}
	return dst
}

func decodeGathered(payload []byte, ranks int) ([][]byte, error) {
	result := make([][]byte, ranks)
	for r := range result {
		if len(payload) < 4 {
			return nil, errMalformed
		}
		n := int(binary.LittleEndian.Uint32(payload))
		if payload = payload[4:]; n > len(payload) {
			return nil, errMalformed
		}
		result[r], payload = payload[:n:n], payload[n:]
	}
	if len(payload) != 0 {
		return nil, errMalformed
	}
	return result, nil
}

// encodeAbort returns the rank, in four bytes, and the reason.
func encodeAbort(e *AbortedError) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(int32(e.Rank))), e.Reason...)
}

func decodeAbort(payload []byte) *AbortedError {
	if len(payload) < 4 {
		return &AbortedError{Rank: HubRank, Reason: errMalformed.Error()}
	}
	return &AbortedError{Rank: int(int32(binary.LittleEndian.Uint32(payload))), Reason: string(payload[4:])}
}
