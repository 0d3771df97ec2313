// Package connection connects the processes of one job: it lets them find each other, prove that they
// belong together, exchange messages, and notice when one is missing, refused or lost. It serves
// the nodes of a rendezvous, the ranks of another launcher's job, workers and their supervisor, a
// launch agent and its owner, and the ranks of a process group. Each of them defines its own
// messages.
//
// # From an address to a message
//
// A [Service] has a banner, which names it and its version, and a secret. One side listens and
// admits clients that know the secret with [Service.Serve]. The other side connects with
// [Service.Dial], or with [Service.DialAny], which searches several addresses until a deadline.
// Each side proves to the other that it knows the secret; the secret itself is never sent. On a
// unix socket the kernel also confirms that the other process belongs to the same user. Clients
// without a proof cost little: their number, time and bytes are limited, and when too many wait,
// the address that holds the most connections loses its oldest. [ListenTCP] and [ListenLocal] open the
// two kinds of address. [SocketPair] and [Pipe] need neither address nor proof.
//
// The result is a [Conn]. It carries frames. A frame has four bytes of length, an HMAC if there was a handshake, and a
// message. A message is JSON, or the output of its MarshalBinary method. The HMAC detects forged, changed, repeated and
// reflected frames. Nothing is encrypted. Over a unix socket, open files can accompany a frame. Conn.Send blocks while
// the peer is slow and returns errors. A [Link] never blocks: a goroutine sends from a queue, and the receiving side
// reports the errors.
//
// # Membership
//
// [Group] decides who belongs to a group. It has no clock and no socket. Its caller reports joins, messages,
// disconnects and the passing of time. Group answers which members are refused and why, which have been silent for too
// long, and which are missing. Silence is counted in ticks and not by the clock: if this process is stopped for a
// while, only one tick is waiting when it continues, and its peers do not all seem dead. The files in testdata show
// these rules in short scenarios.
//
// [Collect] is enough for a group that meets once: it waits for one connection from every rank. A
// group that stays in touch has a [Coordinator], which is pure like Group and built on it: messages
// in, actions out. A [Host] runs the coordinator: it numbers the connections, delivers messages and
// ticks, performs the actions, and sends a heartbeat to every member twice a second. A member uses
// [Link.Run]. Both sides treat a zero message as a heartbeat.
//
// The process that hosts a group is also a member of it, with connection number [SelfPeer]. It communicates with its
// host over a pipe, in the same way as the others do over the network.
package connection

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/lists"
)

const (
	// HeartbeatInterval is the time between two heartbeats of either side.
	HeartbeatInterval = 500 * time.Millisecond
	// SilenceLimit is the default time without a message after which a peer is considered dead.
	SilenceLimit = 5 * time.Second
	// HandshakeTimeout limits the handshake, and again the first message after it. Our services send their first
	// bytes at once. Many other services wait for the client, so without a limit the client would wait forever.
	HandshakeTimeout = 5 * time.Second
	// Tick is the unit of time of a [Coordinator].
	Tick = 100 * time.Millisecond

	// lingerTimeout is the time that a closing connection waits for its peer to read the rest.
	lingerTimeout = time.Second
	// maxRedialPause is the longest pause between two attempts to reach a peer that is not there yet.
	maxRedialPause = 50 * time.Millisecond
)

const (
	// maxFrame limits the length of a frame. The largest frames in use are sync-group exchanges.
	maxFrame = 1 << 30
	// trustedFrame is the longest frame for which memory is allocated up front. Memory for longer
	// frames grows as bytes arrive, so that a corrupt length cannot exhaust it.
	trustedFrame = 1 << 20
	// MaxFiles is the number of open files that may accompany one frame. The kernel's limit for one
	// message is 253 (SCM_MAX_FD).
	MaxFiles = 250
)

// Side is an end of a connection. The HMAC of a frame covers its sender's side, so that an attacker cannot reflect a
// frame to its sender.
type Side byte

// HostSide is the side that listened, MemberSide the side that dialled.
const (
	HostSide   Side = 'h'
	MemberSide Side = 'm'
)

func (s Side) other() Side {
	if s == HostSide {
		return MemberSide
	}
	return HostSide
}

// Conn is a connection that carries frames. One goroutine at a time may receive; any number may
// send. Conn never reads past the frame that was asked for, so callers may use the embedded
// net.Conn for other data after some frames.
type Conn struct {
	net.Conn
	// PID is the process at the other end of a unix socket, or 0 if unknown.
	PID int

	key      []byte // nil if frames are not authenticated
	side     Side
	in       io.Reader
	received uint64     // number of frames received; each frame's HMAC covers it, which prevents replay
	files    []*os.File // received but not yet claimed by Files

	sending sync.Mutex // held while a frame is written; see sendFrame
	sent    uint64     // number of frames sent; guarded by sending
}

// Plain wraps a connection that only the two intended processes can hold, such as a socket pair.
// Its frames are not authenticated.
func Plain(conn net.Conn) *Conn { return newConn(conn, nil, HostSide) }

func newConn(conn net.Conn, key []byte, side Side) *Conn {
	c := &Conn{Conn: conn, key: key, side: side, in: conn}
	if u, ok := conn.(*net.UnixConn); ok {
		c.in = &fileReader{u, &c.files}
	}
	return c
}

// hash authenticates a frame. It covers the sender's side, the frame number and the body.
func (c *Conn) hash(from Side, number uint64, body []byte) []byte {
	mac := hmac.New(sha256.New, c.key)
	mac.Write([]byte{byte(from)})
	mac.Write(binary.BigEndian.AppendUint64(nil, number))
	mac.Write(body)
	return mac.Sum(nil)
}

// Send writes one message. Files can accompany it over a unix socket only.
func (c *Conn) Send(message any, files ...*os.File) error {
	body, err := encode(message)
	if err != nil {
		return err
	}
	return c.sendFrame(body, files)
}

func encode(message any) (body []byte, err error) {
	if m, ok := message.(encoding.BinaryMarshaler); ok {
		body, err = m.MarshalBinary()
	} else {
		body, err = json.Marshal(message)
	}
	if err != nil {
		return nil, fmt.Errorf("encoding a frame: %w", err)
	}
	if len(body) > maxFrame {
		return nil, fmt.Errorf("sending a frame: %d bytes are more than the limit of %d", len(body), maxFrame)
	}
	return body, nil
}

// sendFrame writes the length, the HMAC if the connection is authenticated, and the body. The lock
// keeps frames whole and their numbers in the order of sending.
func (c *Conn) sendFrame(body []byte, files []*os.File) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	frame := make([]byte, 0, 4+sha256.Size+len(body))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(body)))
	if c.key != nil {
		frame = append(frame, c.hash(c.side, c.sent, body)...)
	}
	frame = append(frame, body...)
	c.sent++
	if len(files) > 0 {
		u, ok := c.Conn.(*net.UnixConn)
		if !ok {
			return fmt.Errorf("sending files: a %T cannot carry them", c.Conn)
		}
		fds := lists.Map(files, func(f *os.File) int { return int(f.Fd()) })
		// Send the files with a single byte: WriteMsgUnix may write part of a longer buffer, and a
		// retry would send the files twice.
		if _, _, err := u.WriteMsgUnix(frame[:1], unix.UnixRights(fds...), nil); err != nil {
			return fmt.Errorf("sending files: %w", err)
		}
		frame = frame[1:]
	}
	if _, err := c.Write(frame); err != nil {
		return fmt.Errorf("sending a frame: %w", err)
	}
	return nil
}

// Receive reads one message. The error is io.EOF itself if the peer closed the connection between
// two frames.
func (c *Conn) Receive(message any) error {
	body, err := c.receiveFrame()
	if err != nil {
		for _, f := range c.files { // after an error, nobody calls Files
			f.Close()
		}
		c.files = nil
		return err
	}
	if m, ok := message.(encoding.BinaryUnmarshaler); ok {
		err = m.UnmarshalBinary(body)
	} else {
		err = json.Unmarshal(body, message)
	}
	if err != nil {
		return fmt.Errorf("decoding a frame: %w", err)
	}
	return nil
}

// ReceiveFirst is Receive for the message that a peer sends right after the handshake. It times out
// after HandshakeTimeout.
func (c *Conn) ReceiveFirst(message any) error {
	c.SetReadDeadline(time.Now().Add(HandshakeTimeout))
	defer c.SetReadDeadline(time.Time{})
	return c.Receive(message)
}

// receiveFrame reads one frame and verifies its HMAC. The error is io.EOF only if the connection
// ended between two frames.
func (c *Conn) receiveFrame() ([]byte, error) {
	head := make([]byte, 4, 4+sha256.Size)
	if c.key != nil {
		head = head[:cap(head)]
	}
	if _, err := io.ReadFull(c.in, head); err != nil {
		if err == io.EOF {
			return nil, err
		}
		return nil, fmt.Errorf("receiving a frame: %w", err)
	}
	size := int(binary.BigEndian.Uint32(head))
	if size > maxFrame {
		return nil, fmt.Errorf("receiving a frame: %d bytes are more than the limit of %d", size, maxFrame)
	}
	body := make([]byte, min(size, trustedFrame))
	_, err := io.ReadFull(c.in, body)
	if err == nil && size > len(body) {
		var rest []byte
		rest, err = io.ReadAll(io.LimitReader(c.in, int64(size-len(body))))
		if body = append(body, rest...); err == nil && len(body) < size {
			err = io.ErrUnexpectedEOF
		}
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("receiving a frame: %w", err)
	}
	if c.key != nil && !hmac.Equal(head[4:], c.hash(c.side.other(), c.received, body)) {
		return nil, errors.New("receiving a frame: its authentication code is wrong")
	}
	c.received++
	return body, nil
}

// Files returns the next n files that came with the frames received so far. The caller closes them.
func (c *Conn) Files(n int) ([]*os.File, error) {
	if n > len(c.files) {
		return nil, fmt.Errorf("receiving files: %d were announced, %d came", n, len(c.files))
	}
	files := c.files[:n:n]
	c.files = c.files[n:]
	return files, nil
}

// CloseWrite ends the sending direction; the peer reads end of file.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close() // a net.Pipe cannot be half closed, but it is unbuffered, so closing it loses no data
}

// fileReader reads from a unix socket and appends received files to files. The files of a frame arrive with its first
// byte.
type fileReader struct {
	conn  *net.UnixConn
	files *[]*os.File
}

func (r *fileReader) Read(p []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4*253))
	n, oobn, _, _, err := r.conn.ReadMsgUnix(p, oob)
	if oobn > 0 {
		if ferr := r.take(oob[:oobn]); ferr != nil && err == nil {
			err = ferr
		}
	}
	if n == 0 && err == nil && len(p) > 0 {
		return 0, io.EOF // unlike Read, ReadMsgUnix reports end of file as 0 bytes
	}
	return max(n, 0), err // ReadMsgUnix returns -1 with an error, which io.Reader forbids
}

func (r *fileReader) take(oob []byte) error {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("receiving files: %w", err)
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return fmt.Errorf("receiving files: %w", err)
		}
		for _, fd := range fds {
			*r.files = append(*r.files, os.NewFile(uintptr(fd), "passed file")) // ReadMsgUnix sets close-on-exec
		}
	}
	return nil
}

// IsDisconnect reports whether an error of Receive means that the connection has ended, in contrast
// to a malformed or unauthenticated frame.
func IsDisconnect(err error) bool {
	return isReset(err) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE)
}
