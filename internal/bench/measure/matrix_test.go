package measure

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
)

func matrixOf(rows ...[]int64) Matrix {
	m := NewMatrix(len(rows[0]))
	for _, row := range rows {
		m.Append(row...)
	}
	return m
}

func TestMatrix(t *testing.T) {
	m := matrixOf([]int64{1, 2, 3}, []int64{4, 6, 5})
	if m.Iterations() != 2 || m.Ranks() != 3 || m.At(1, 2) != 5 || !slices.Equal(m.Row(0), []int64{1, 2, 3}) {
		t.Errorf("wrong matrix %+v", m)
	}
	if got := m.maxima(); !slices.Equal(got, []int64{3, 6}) {
		t.Errorf("maxima %v", got)
	}
	if (Matrix{}).Iterations() != 0 {
		t.Error("the zero matrix has iterations")
	}
}

func TestMatrixRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(0, 5).Draw(t, "ranks")
		m := NewMatrix(ranks)
		for range rapid.IntRange(0, 20).Draw(t, "iterations") { // without ranks, the matrix stays empty
			m.Append(rapid.SliceOfN(rapid.Int64(), ranks, ranks).Draw(t, "row")...)
		}
		b := must.Get(m.MarshalBinary())(t)
		var back Matrix
		must.Do(t, back.UnmarshalBinary(b))
		if back.Ranks() != ranks || !slices.Equal(back.data, m.data) {
			t.Fatalf("got %+v, want %+v", back, m)
		}
		// Every proper prefix is rejected, and so is trailing data.
		for cut := range b {
			if new(Matrix).UnmarshalBinary(b[:cut]) == nil {
				t.Fatalf("took the first %d of %d bytes", cut, len(b))
			}
		}
		if new(Matrix).UnmarshalBinary(append(b, 0)) == nil {
			t.Fatal("took a byte too many")
		}
	})
}

// TestMatrixBytes pins the format: files of older runs must stay readable.
func TestMatrixBytes(t *testing.T) {
	m := matrixOf([]int64{1000, 64}, []int64{999, 64}, []int64{1001, -1})
	want := []byte("KBSM\x01\x03\x02\xd0\x0f\x80\x01\x01\x00\x04\x81\x01")
	if got, _ := m.MarshalBinary(); !bytes.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	var equal Matrix // one byte for each duration is the least
	if err := equal.UnmarshalBinary([]byte("KBSM\x01\x02\x02\x02\x04\x00\x00")); err != nil ||
		!slices.Equal(equal.data, []int64{1, 2, 1, 2}) {
		t.Errorf("equal durations: %v, %v", equal, err)
	}
}

func TestMatrixRefuses(t *testing.T) {
	for want, input := range map[string]string{
		"does not start":  "KBSX\x01\x00\x00",
		"version 2":       "KBSM\x02\x00\x00",
		"1 iterations of": "KBSM\x01\x01\x00",
		"cannot hold":     "KBSM\x01\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x02\x00\x00",
		"truncated":       "KBSM\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
	} {
		if err := new(Matrix).UnmarshalBinary([]byte(input)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", input, err, want)
		}
	}
	most := must.Get(NewMatrix(maxMatrixRanks).MarshalBinary())(t)
	must.Do(t, new(Matrix).UnmarshalBinary(most))
	if _, err := NewMatrix(maxMatrixRanks + 1).MarshalBinary(); err == nil {
		t.Error("encoded more ranks than can be decoded")
	}
	more := binary.AppendUvarint([]byte("KBSM\x01\x00"), maxMatrixRanks+1)
	if new(Matrix).UnmarshalBinary(more) == nil {
		t.Error("decoded more ranks than can be encoded")
	}
}

func FuzzMatrix(f *testing.F) {
	for _, m := range []Matrix{NewMatrix(3), matrixOf([]int64{1, math.MinInt64}, []int64{math.MaxInt64, 0})} {
		b, _ := m.MarshalBinary()
		f.Add(b)
	}
	f.Add([]byte("KBSM\x01\xff\xff\xff\xff\x0f\xff\xff\xff\xff\x0f\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m, again Matrix
		if m.UnmarshalBinary(data) != nil {
			return
		}
		if len(m.data) > len(data) {
			t.Fatalf("%d bytes gave %d durations", len(data), len(m.data))
		}
		b := must.Get(m.MarshalBinary())(t)
		if err := again.UnmarshalBinary(b); err != nil || again.ranks != m.ranks || !slices.Equal(again.data, m.data) {
			t.Fatalf("%+v came back as %+v, %v", m, again, err)
		}
	})
}

// Append adds an iteration. It panics unless there is one duration per rank.
func (m *Matrix) Append(row ...int64) {
	if len(row) != m.ranks {
		panic(fmt.Sprintf("measure.Matrix.Append: %d durations for %d ranks", len(row), m.ranks))
	}
	m.data = append(m.data, row...)
}
