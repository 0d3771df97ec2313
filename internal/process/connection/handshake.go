// Package connection is a conversation between two processes that know a common
// secret: each proves it to the other without sending it, and every message then
// carries a keyed hash, so that none can be made up, changed, repeated or sent
// back. Nothing is encrypted. What is said, and where the secret comes from, is
// the callers' matter.
package connection

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// The opening of a conversation, H the side that listened and M the one that
// came:
//
//	H: banner, nonce
//	M: nonce, proof
//	H: y, proof   or   n
//
// A proof is a keyed hash of both nonces. Who comes goes first, so that nobody
// who merely connects is given something to try guesses on. Both sides derive
// the key of the conversation from the same nonces.
const (
	nonceSize = 32
	proofSize = sha256.Size

	accepted, turnedAway = 'y', 'n'
)

// HandshakeLimit bounds the opening. The first word comes at once from the right
// service, and never from many others.
const HandshakeLimit = 5 * time.Second

var (
	// ErrStranger says that what listens there is another service.
	ErrStranger = errors.New("another service")
	// ErrSecret says that the two sides do not know the same secret.
	ErrSecret = errors.New("the secrets differ")
)

func proof(secret []byte, banner, who string, nonces []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(banner + who + "\n"))
	mac.Write(nonces)
	return mac.Sum(nil)
}

// Greet opens the conversation for the side that listened, and returns its key.
// The banner names the service and its version.
func Greet(conn net.Conn, secret []byte, banner string) (key []byte, err error) {
	conn.SetDeadline(time.Now().Add(HandshakeLimit))
	nonces := make([]byte, 2*nonceSize) // the listener's, then the other's
	rand.Read(nonces[:nonceSize])
	if _, err := conn.Write(append([]byte(banner), nonces[:nonceSize]...)); err != nil {
		return nil, fmt.Errorf("greeting: %w", err)
	}
	answer := make([]byte, nonceSize+proofSize)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, fmt.Errorf("waiting for its proof: %w", err)
	}
	copy(nonces[nonceSize:], answer)
	if !hmac.Equal(answer[nonceSize:], proof(secret, banner, "member", nonces)) {
		conn.Write([]byte{turnedAway})
		return nil, ErrSecret
	}
	if _, err := conn.Write(append([]byte{accepted}, proof(secret, banner, "host", nonces)...)); err != nil {
		return nil, fmt.Errorf("greeting: %w", err)
	}
	conn.SetDeadline(time.Time{})
	return proof(secret, banner, "key", nonces), nil
}

// Answer opens the conversation for the side that came. A connection that ends
// before the first word gives that error, not ErrStranger: the other side may be
// just ending, or just starting.
func Answer(conn net.Conn, secret []byte, banner string) (key []byte, err error) {
	conn.SetDeadline(time.Now().Add(HandshakeLimit))
	hello := make([]byte, len(banner)+nonceSize)
	if n, err := io.ReadFull(conn, hello); err != nil || string(hello[:len(banner)]) != banner {
		if n == 0 && isReset(err) {
			return nil, fmt.Errorf("waiting for its greeting: %w", err)
		}
		return nil, ErrStranger
	}
	nonces := slices.Concat(hello[len(banner):], make([]byte, nonceSize))
	rand.Read(nonces[nonceSize:])
	if _, err := conn.Write(slices.Concat(nonces[nonceSize:], proof(secret, banner, "member", nonces))); err != nil {
		return nil, fmt.Errorf("sending the proof: %w", err)
	}
	verdict := make([]byte, 1+proofSize)
	n, err := io.ReadFull(conn, verdict)
	switch {
	case n > 0 && verdict[0] == turnedAway:
		return nil, ErrSecret
	case err != nil:
		return nil, fmt.Errorf("waiting for its proof: %w", err)
	case verdict[0] != accepted || !hmac.Equal(verdict[1:], proof(secret, banner, "host", nonces)):
		return nil, ErrSecret
	}
	conn.SetDeadline(time.Time{})
	return proof(secret, banner, "key", nonces), nil
}
