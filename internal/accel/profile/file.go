package profile

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// MaxFile is the largest file that is read, and maxText what it may hold when it is unpacked.
const (
	MaxFile = 4 << 20
	maxText = 16 << 20
	maxName = 200
	maxBox  = 100_000
)

// Encode is the record as a file: JSON, compressed. Of no record it is nothing.
func (r *Record) Encode() ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("storing what was seen inside a kernel: %w", err)
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err == nil {
		_, err = z.Write(text)
		err = errors.Join(err, z.Close())
	}
	if err == nil && b.Len() > MaxFile {
		err = fmt.Errorf("it takes %d bytes, more than %d", b.Len(), MaxFile)
	}
	if err != nil {
		return nil, fmt.Errorf("storing what was seen inside a kernel: %w", err)
	}
	return b.Bytes(), nil
}

// Decode reads a file that Encode made, or says what is wrong with it.
func Decode(data []byte) (*Record, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("%d bytes are more than the %d of any record", len(data), MaxFile)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(z, maxText+1))
	if err != nil {
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	if len(text) > maxText {
		return nil, fmt.Errorf("it unpacks to more than %d bytes", maxText)
	}
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	return &r, r.check()
}

// check demands what Of promises.
func (r *Record) check() error {
	switch {
	case r.Version != Version:
		return fmt.Errorf("it is of version %d, want %d", r.Version, Version)
	case r.Kernel <= 0 || r.Bucket <= 0 || r.Kernel > math.MaxInt64/512 || r.Bucket > math.MaxInt64/512:
		return fmt.Errorf("a kernel of %d ps in buckets of %d: want both positive", r.Kernel, r.Bucket)
	case r.Buckets < 0 || r.Buckets > MaxBuckets || len(r.Links) > MaxLinks || len(r.Path) > MaxSteps ||
		len(r.Plan.Boxes) > maxBox:
		return fmt.Errorf("%d buckets, %d links, %d steps and %d boxes: want at most %d, %d, %d and %d",
			r.Buckets, len(r.Links), len(r.Path), len(r.Plan.Boxes), MaxBuckets, MaxLinks, MaxSteps, maxBox)
	case r.SIPs < 1 || r.Others < 0 || !drawable(r.Plan.W, r.Plan.H) || r.Plan.W <= 0 || r.Plan.H <= 0:
		return fmt.Errorf("%d SIPs of %g x %g mm, %d other links", r.SIPs, r.Plan.W, r.Plan.H, r.Others)
	}
	for i, b := range r.Plan.Boxes {
		if !drawable(b.X, b.Y, b.W, b.H) || b.W < 0 || b.H < 0 || len(b.Name) > maxName {
			return fmt.Errorf("box %d of the floor plan cannot be drawn", i)
		}
	}
	for i := range r.Links {
		l := &r.Links[i]
		if !drawable(l.Line[:]...) || len(l.Name) > maxName || len(l.Load) > r.Buckets || l.SIP < 0 || l.SIP >= r.SIPs ||
			l.Bytes < 0 || l.Busy < 0 || l.Wait < 0 {
			return fmt.Errorf("link %d (%.60q) has %d buckets of %d, SIP %d of %d, %d bytes, busy %d and waits %d ps",
				i, l.Name, len(l.Load), r.Buckets, l.SIP, r.SIPs, l.Bytes, l.Busy, l.Wait)
		}
	}
	return r.checkPath()
}

// checkPath demands that each picosecond of the critical path has one cause.
func (r *Record) checkPath() error {
	var at int64
	for i, s := range r.Path {
		var sum int64
		for cause, time := range s.Causes {
			if !slices.Contains(Causes(), cause) || time < 0 || time > r.Kernel {
				return fmt.Errorf("step %d of the critical path has %d ps of %.60q", i, time, cause)
			}
			sum += time
		}
		if s.From != at || s.To <= s.From || sum != s.To-s.From {
			return fmt.Errorf("step %d of the critical path is from %d to %d ps, after one that ended at %d, and its causes "+
				"add up to %d", i, s.From, s.To, at, sum)
		}
		if max(len(s.PE), len(s.Sender), len(s.Part), len(s.Link), len(s.Op)) > maxName {
			return fmt.Errorf("step %d of the critical path has a name of more than %d bytes", i, maxName)
		}
		at = s.To
	}
	if len(r.Path) > 0 && at != r.Kernel {
		return fmt.Errorf("the critical path ends at %d ps, the kernel at %d", at, r.Kernel)
	}
	return nil
}

// drawable reports whether lengths in millimetres are such that a picture can hold them.
func drawable(lengths ...float64) bool {
	for _, l := range lengths {
		if !(math.Abs(l) < 1e6) {
			return false
		}
	}
	return true
}
