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
	frameExchange = 'x' // rank to hub: values; hub to rank: for each rank a count and its values
	frameAbort    = 'a' // rank to hub: reason; hub to rank: rank, reason
	frameLeave    = 'l' // rank to hub: will send no more
)

// maxPayload holds MaxValues of one rank; with many ranks the sum must fit too. Together with the kind byte it is the
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

func encodeValues(values []int64) []byte {
	payload, _ := binary.Append(nil, binary.LittleEndian, values) // cannot fail: integers have a fixed size
	return payload
}

// encodeGathered returns the hub's answer to an exchange.
func encodeGathered(perRank [][]byte) []byte {
	var dst []byte
	for _, values := range perRank {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(values)/8))
		dst = append(dst, values...)
	}
	return dst
}

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
		result[r] = make([]int64, count)
		n, _ := binary.Decode(payload, binary.LittleEndian, result[r])
		payload = payload[n:]
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
