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
	// maxFrame bounds a frame. The largest real ones are exchanges of a sync group.
	maxFrame = 1 << 30
	// trustedFrame is the length up to which memory is taken before the bytes are
	// there. Beyond it grows with them, so that a damaged length costs none.
	trustedFrame = 1 << 20
	// MaxFiles is how many open files may go with one frame: less than the 253 that
	// the kernel allows in one message (SCM_MAX_FD).
	MaxFiles = 250
)

// Side tells the two directions of a connection apart, so that a frame cannot be
// sent back to where it came from.
type Side byte

// The sides: who listened, and who dialled.
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

// Conn is a connection that carries frames. One goroutine may receive; any may
// send. It reads no byte beyond the frame it was asked for, so that after some
// frames the bytes may be used for something else, by way of the net.Conn.
type Conn struct {
	net.Conn
	// PID is the process at the other end of a unix socket, 0 if it is not known.
	PID int

	key      []byte // nil: frames are not authenticated
	side     Side
	in       io.Reader
	received uint64
	files    []*os.File // that came and were not yet taken

	sending sync.Mutex
	sent    uint64
}

// Plain makes a Conn of a connection that only the two right processes can have,
// and whose frames therefore need no authentication.
func Plain(conn net.Conn) *Conn { return newConn(conn, nil, HostSide) }

func newConn(conn net.Conn, key []byte, side Side) *Conn {
	c := &Conn{Conn: conn, key: key, side: side, in: conn}
	if u, ok := conn.(*net.UnixConn); ok {
		c.in = &fileReader{u, &c.files}
	}
	return c
}

// hash authenticates a frame: which side sent it, its number, and what it says.
func (c *Conn) hash(from Side, number uint64, body []byte) []byte {
	mac := hmac.New(sha256.New, c.key)
	mac.Write([]byte{byte(from)})
	mac.Write(binary.BigEndian.AppendUint64(nil, number))
	mac.Write(body)
	return mac.Sum(nil)
}

// Send writes one message, and files beside it if the connection is a unix socket.
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
		// Only one byte goes with the files: WriteMsgUnix may write a part, and the
		// files must not be sent twice.
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

// Receive reads one message. The error is io.EOF itself when the peer has ended
// between frames.
func (c *Conn) Receive(message any) error {
	body, err := c.receiveFrame()
	if err != nil {
		for _, f := range c.files { // nobody will ask for them
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

// ReceiveFirst is Receive for a message that the peer sends at once.
func (c *Conn) ReceiveFirst(message any) error {
	c.SetReadDeadline(time.Now().Add(HandshakeTimeout))
	defer c.SetReadDeadline(time.Time{})
	return c.Receive(message)
}

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
		return nil, errors.New("receiving a frame: the peer has not sent it")
	}
	c.received++
	return body, nil
}

// Files gives the n files that came with the frames received so far. They belong
// to the caller.
func (c *Conn) Files(n int) ([]*os.File, error) {
	if n > len(c.files) {
		return nil, fmt.Errorf("receiving files: %d were announced, %d came", n, len(c.files))
	}
	taken := c.files[:n:n]
	c.files = c.files[n:]
	return taken, nil
}

// CloseWrite says that nothing follows; the peer reads end of file.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close() // a pipe has no half-open state, and loses nothing
}

// fileReader reads from a unix socket and puts files that come with the bytes
// aside. They travel with the first byte of their frame.
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
		return 0, io.EOF // unlike Read, ReadMsgUnix gives the kernel's plain 0
	}
	return max(n, 0), err // with an error it is -1, which no Reader may return
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

// IsDisconnect reports whether the error of a Receive is the end of the connection, and
// not a fault of its own.
func IsDisconnect(err error) bool {
	return isReset(err) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE)
}
