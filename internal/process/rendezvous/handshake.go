package rendezvous

import (
	"errors"
	"fmt"
	"net"

	"github.com/kernbench/kernbench/internal/process/connection"
)

// banner names this service and its version.
const banner = "kernbench rendezvous 1\n"

var errNoRendezvous = errors.New("what listens there is not a kernbench rendezvous of this version")

type link = connection.Link[message]

// greetMember is the host's side.
func greetMember(conn net.Conn, secret []byte) (*link, error) {
	c, err := connection.Service{Banner: banner, Secret: secret}.Greet(conn)
	if err != nil {
		return nil, err
	}
	return connection.NewLink[message](c), nil
}

// greetHost is the member's side.
func greetHost(conn net.Conn, secret []byte) (*link, error) {
	c, err := connection.Service{Banner: banner, Secret: secret}.Answer(conn)
	if errors.Is(err, connection.ErrOtherService) {
		err = errNoRendezvous
	}
	if err != nil {
		return nil, err
	}
	return connection.NewLink[message](c), nil
}

// describe says in words how a connection ended.
func describe(err error) string {
	if connection.Ended(err) {
		return "its launcher ended (connection closed)"
	}
	return fmt.Sprintf("the connection broke: %v", err)
}
