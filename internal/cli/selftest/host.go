package selftest

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"image/png"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// host tests what runs need from this machine.
func (s session) host() {
	s.check("host", "journal", func() (string, error) {
		return "written and read back", writeJournal(filepath.Join(s.dir, "journal"))
	})
	s.check("host", "figures", func() (string, error) {
		return "PNG and SVG drawn", drawFigure(filepath.Join(s.dir, "figures"))
	})
	s.check("host", "shared memory", func() (string, error) { return "anonymous memory mapped twice", shareMemory() })
	s.check("host", "sockets", func() (string, error) {
		name := fmt.Sprintf("@kernbench-selftest-%d", os.Getpid())
		return "unix and TCP loopback", errors.Join(echo("unix", name), echo("tcp", "127.0.0.1:0"))
	})
}

// writeJournal writes a run with one row and reads it back.
func writeJournal(dir string) error {
	now := time.Now().UTC()
	id := journal.NewRunID(now, rand.Reader)
	w, err := journal.Open(dir)
	if err != nil {
		return err
	}
	defer w.Close()
	ranks := 1
	row := journal.Row{Schema: journal.Schema, Run: id, Key: "selftest", Bench: benchName, NumRanks: &ranks,
		Backend: "cpu", Status: journal.OK,
		Kind: journal.Measured, Time: now, Metrics: map[string]float64{"time_us": 0.1},
		Point: point.Point{{Name: "size", Value: point.BytesValue(1 << 20)}}}
	for _, record := range []any{
		journal.Header{Schema: journal.Schema, Run: id, Bench: benchName, Time: now, Host: hostinfo.Local(),
			Environ: map[string]string{}, Points: 1},
		row,
		journal.End{Run: id, Outcome: "complete", Time: now},
	} {
		if err := w.Append(record); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	_, run, err := journal.LoadRun(dir)
	if err != nil {
		return err
	}
	rows := dataset.Latest(run)
	if len(rows) != 1 || run.End == nil {
		return fmt.Errorf("wrote one row and the end of a run, read back %d rows", len(rows))
	}
	if size, _ := rows[0].Point.Get("size"); rows[0].Metrics["time_us"] != 0.1 || size.Int() != 1<<20 {
		return fmt.Errorf("wrote %+v, read back %+v", row, rows[0])
	}
	return nil
}

// drawFigure draws a small chart and checks the files.
func drawFigure(dir string) error {
	files, err := figure.Write(dir, ".", figure.Figure{Name: "selftest", Title: "Self-test", Panels: []figure.Panel{{
		X: figure.Axis{Label: "size", Scale: figure.Log2}, Y: figure.Axis{Label: "time"},
		Series: []figure.Series{{Name: "time", Points: []figure.Point{{X: 1, Y: 1}, {X: 1024, Y: 3}}}},
	}}})
	if err != nil {
		return err
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		switch filepath.Ext(name) {
		case ".png":
			if picture, err := png.Decode(bytes.NewReader(data)); err != nil || picture.Bounds().Empty() {
				return fmt.Errorf("%s: not a PNG image: %w", filepath.Base(name), err)
			}
		case ".svg":
			if !bytes.Contains(data, []byte("<svg")) {
				return fmt.Errorf("%s: not an SVG image", filepath.Base(name))
			}
		}
	}
	if len(files) < 2 {
		return fmt.Errorf("only %d files were written", len(files))
	}
	return nil
}

// shareMemory writes through one mapping and reads through another.
func shareMemory() error {
	const size = 1 << 20
	fd, err := unix.MemfdCreate("kernbench-selftest", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, size); err != nil {
		return fmt.Errorf("ftruncate: %w", err)
	}
	var views [2][]byte
	for i := range views {
		if views[i], err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
			return fmt.Errorf("mmap: %w", err)
		}
		defer unix.Munmap(views[i])
	}
	for i := range size {
		views[0][i] = byte(i * 7)
	}
	if !bytes.Equal(views[0], views[1]) {
		return errors.New("two mappings of one memory differ")
	}
	return nil
}

// echo sends a message through a socket and back.
func echo(network, address string) error {
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	defer l.Close()
	limit := time.Now().Add(5 * time.Second)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.SetDeadline(limit)
		io.Copy(conn, conn)
	}()
	conn, err := net.DialTimeout(network, l.Addr().String(), time.Until(limit))
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(limit)
	sent, got := bytes.Repeat([]byte("kernbench"), 1000), make([]byte, 9000)
	if _, err := conn.Write(sent); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, got); err != nil {
		return fmt.Errorf("reading from a %s socket: %w", network, err)
	}
	if !bytes.Equal(sent, got) {
		return fmt.Errorf("a %s socket returned other bytes", network)
	}
	return nil
}
