package rendezvous

import (
	"errors"
	"fmt"
	"net"

	"github.com/kernbench/kernbench/internal/sealed"
)

// banner names this service and its version.
const banner = "kernbench rendezvous 1\n"

var errNoRendezvous = errors.New("what listens there is not a kernbench rendezvous of this version")

type link = sealed.Link[message]

// greetMember is the host's side.
func greetMember(conn net.Conn, secret []byte) (*link, error) {
	key, err := sealed.Greet(conn, secret, banner)
	if err != nil {
		return nil, err
	}
	return sealed.New[message](conn, key, sealed.HostSide), nil
}

// greetHost is the member's side.
func greetHost(conn net.Conn, secret []byte) (*link, error) {
	key, err := sealed.Answer(conn, secret, banner)
	if errors.Is(err, sealed.ErrStranger) {
		err = errNoRendezvous
	}
	if err != nil {
		return nil, err
	}
	return sealed.New[message](conn, key, sealed.MemberSide), nil
}

// describe says in words how a connection ended.
func describe(err error) string {
	if sealed.Ended(err) {
		return "its launcher ended (connection closed)"
	}
	return fmt.Sprintf("the connection broke: %v", err)
}
