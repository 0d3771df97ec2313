package rendezvous

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

// The opening of a conversation, H the host and M a member:
//
//	H: banner, nonce
//	M: nonce, proof
//	H: y, proof   or   n
//
// A proof is a keyed hash of both nonces. The member goes first, so that nobody
// who merely connects is given something to try guesses on. Both sides derive
// the key of the conversation from the same nonces.
const (
	banner    = "kernbench rendezvous 1\n"
	nonceSize = 32
	proofSize = sha256.Size

	accepted, turnedAway = 'y', 'n'
)

// handshakeLimit bounds the opening. The first word comes at once from a
// rendezvous, and never from many other services.
const handshakeLimit = 5 * time.Second

var (
	errNoRendezvous = errors.New("what listens there is not a kernbench rendezvous of this version")
	errSecret       = errors.New("the secrets differ")
)

func proof(secret []byte, who string, nonces []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(banner + who + "\n"))
	mac.Write(nonces)
	return mac.Sum(nil)
}

// greetMember is the host's side.
func greetMember(conn net.Conn, secret []byte) (*link, error) {
	conn.SetDeadline(time.Now().Add(handshakeLimit))
	nonces := make([]byte, 2*nonceSize) // the host's, then the member's
	rand.Read(nonces[:nonceSize])
	if _, err := conn.Write(append([]byte(banner), nonces[:nonceSize]...)); err != nil {
		return nil, fmt.Errorf("greeting: %w", err)
	}
	answer := make([]byte, nonceSize+proofSize)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, fmt.Errorf("waiting for its proof: %w", err)
	}
	copy(nonces[nonceSize:], answer)
	if !hmac.Equal(answer[nonceSize:], proof(secret, "member", nonces)) {
		conn.Write([]byte{turnedAway})
		return nil, errSecret
	}
	if _, err := conn.Write(append([]byte{accepted}, proof(secret, "host", nonces)...)); err != nil {
		return nil, fmt.Errorf("greeting: %w", err)
	}
	conn.SetDeadline(time.Time{})
	return newLink(conn, proof(secret, "key", nonces), hostSide), nil
}

// greetHost is the member's side.
func greetHost(conn net.Conn, secret []byte) (*link, error) {
	conn.SetDeadline(time.Now().Add(handshakeLimit))
	hello := make([]byte, len(banner)+nonceSize)
	if n, err := io.ReadFull(conn, hello); err != nil || string(hello[:len(banner)]) != banner {
		if n == 0 && isReset(err) {
			return nil, fmt.Errorf("waiting for its greeting: %w", err) // it is just ending, or just starting
		}
		return nil, errNoRendezvous
	}
	nonces := slices.Concat(hello[len(banner):], make([]byte, nonceSize))
	rand.Read(nonces[nonceSize:])
	if _, err := conn.Write(slices.Concat(nonces[nonceSize:], proof(secret, "member", nonces))); err != nil {
		return nil, fmt.Errorf("sending the proof: %w", err)
	}
	verdict := make([]byte, 1+proofSize)
	n, err := io.ReadFull(conn, verdict)
	switch {
	case n > 0 && verdict[0] == turnedAway:
		return nil, errSecret
	case err != nil:
		return nil, fmt.Errorf("waiting for its proof: %w", err)
	case verdict[0] != accepted || !hmac.Equal(verdict[1:], proof(secret, "host", nonces)):
		return nil, errSecret
	}
	conn.SetDeadline(time.Time{})
	return newLink(conn, proof(secret, "key", nonces), memberSide), nil
}
