package launch

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// maxFrame bounds a frame, so that a damaged length cannot ask for all memory. The largest real ones, a launch of
	// some hundred ranks with long environments, are a few megabytes.
	maxFrame = 64 << 20
	// maxFilesPerFrame stays below the kernel's limit of 253 descriptors in one message (SCM_MAX_FD).
	maxFilesPerFrame = 250
)

// wire carries length-prefixed JSON frames, and open files beside them, over one end of a socket pair. One goroutine
// may receive; any may send.
type wire struct {
	conn *net.UnixConn
	in   *bufio.Reader

	sending sync.Mutex
	// files have arrived but are not yet taken. They travel with the first byte of their frame, so they are here by the
	// time the frame has been read, however far ahead the buffer has read.
	files []*os.File
}

// newWire takes over the descriptor of a connected unix stream socket.
func newWire(fd int) (*wire, error) {
	f := os.NewFile(uintptr(fd), "launch socket")
	defer f.Close() // FileConn works on a copy
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("opening the launch socket: %w", err)
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("opening the launch socket: descriptor %d is a %T, not a unix socket", fd, c)
	}
	w := &wire{conn: conn}
	w.in = bufio.NewReaderSize(w, 32<<10)
	return w, nil
}

// Read reads bytes and puts files that come with them aside.
func (w *wire) Read(p []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4*253))
	n, oobn, _, _, err := w.conn.ReadMsgUnix(p, oob)
	if oobn > 0 {
		if ferr := w.takeRights(oob[:oobn]); ferr != nil && err == nil {
			err = ferr
		}
	}
	if n == 0 && err == nil {
		return 0, io.EOF // unlike Read, ReadMsgUnix gives the kernel's plain 0
	}
	return max(n, 0), err // with an error it is -1, which no Reader may return
}

func (w *wire) takeRights(oob []byte) error {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("receiving files: %w", err)
	}
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			return fmt.Errorf("receiving files: %w", err)
		}
		for _, fd := range fds {
			w.files = append(w.files, os.NewFile(uintptr(fd), "passed file")) // ReadMsgUnix sets close-on-exec
		}
	}
	return nil
}

// take returns the n files that came with the frame just received.
func (w *wire) take(n int) ([]*os.File, error) {
	if n > len(w.files) {
		return nil, fmt.Errorf("receiving files: %d were announced, %d came", n, len(w.files))
	}
	taken := w.files[:n:n]
	w.files = w.files[n:]
	return taken, nil
}

// send writes one frame; files travel with its first byte.
func (w *wire) send(message any, files ...*os.File) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encoding a frame: %w", err)
	}
	if len(body) > maxFrame {
		return fmt.Errorf("sending a frame: %d bytes are more than the limit of %d", len(body), maxFrame)
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = syscall.UnixRights(fds...)
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	frame = append(frame, body...)
	w.sending.Lock()
	defer w.sending.Unlock()
	if rights != nil {
		// Only one byte goes with the files: WriteMsgUnix may write a part, and the files must not be sent twice.
		if _, _, err := w.conn.WriteMsgUnix(frame[:1], rights, nil); err != nil {
			return fmt.Errorf("sending files: %w", err)
		}
		frame = frame[1:]
	}
	if _, err := w.conn.Write(frame); err != nil {
		return fmt.Errorf("sending a frame: %w", err)
	}
	return nil
}

// receive reads one frame into message. The error is io.EOF itself when the peer has gone between frames.
func (w *wire) receive(message any) error { return readFrame(w.in, message) }

func readFrame(in io.Reader, message any) error {
	var size [4]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		if err == io.EOF {
			return err
		}
		return fmt.Errorf("receiving a frame: %w", err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return fmt.Errorf("receiving a frame: %d bytes are more than the limit of %d", n, maxFrame)
	}
	// Grown as the bytes come, so a damaged length costs no memory.
	body, err := io.ReadAll(io.LimitReader(in, int64(n)))
	if err == nil && len(body) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("receiving a frame: %w", err)
	}
	if err := json.Unmarshal(body, message); err != nil {
		return fmt.Errorf("decoding a frame: %w", err)
	}
	return nil
}

func (w *wire) close() {
	w.conn.Close()
	for _, f := range w.files {
		f.Close()
	}
	w.files = nil
}
