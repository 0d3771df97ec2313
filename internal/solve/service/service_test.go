package service

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// inMemory writes the arrays of a problem with a right-hand side of ones to a file, as a client does.
func inMemory(t *testing.T, p sparse.Problem) (*os.File, Request) {
	starts, columns := []int64{0}, []int64(nil)
	var values []float64
	var row sparse.Row
	for i := range p.Size() {
		p.Row(i, &row)
		for k, c := range row.Cols {
			columns, values = append(columns, int64(c)), append(values, row.Vals[k])
		}
		starts = append(starts, int64(len(columns)))
	}
	b := make([]float64, 2*p.Size())
	for i := range p.Size() {
		b[i] = 1
	}
	// The file stays open: a solve whose client is gone may still read it when the test has ended.
	file := must.Get(os.Create(filepath.Join(t.TempDir(), "memory")))(t)
	for _, data := range [][]byte{dist.Of(starts).Bytes(), dist.Of(columns).Bytes(), dist.Of(values).Bytes(),
		dist.Of(b).Bytes()} {
		must.Get(file.Write(data))(t)
	}
	return file, Request{Rows: p.Size(), Entries: len(values), Columns: 1, Method: auto, Precond: "none", Tol: 1e-10,
		Ranks: 1}
}

// A server answers one request after the other, and an error does not end it.
func TestServe(t *testing.T) {
	file, q := inMemory(t, must.Get(sparse.New("variable", sparse.Params{Rows: 400}))(t))
	in, requests := io.Pipe()
	answers, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(t.Context(), in, out, file) }()
	lines := bufio.NewScanner(answers)
	ask := func(text string) (r Reply) {
		must.Get(io.WriteString(requests, text+"\n"))(t)
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		must.Do(t, json.Unmarshal(lines.Bytes(), &r))
		return r
	}
	encoded := func(q Request) string { return string(must.Get(json.Marshal(q))(t)) }
	large, many, wide := q, q, q
	large.Rows *= 10
	many.Entries, wide.Columns = 1<<62, 1<<54 // so many that the number of bytes overflows
	for text, want := range map[string]string{"{": "unexpected end of JSON input", "{}": "a request of 0 rows",
		encoded(large): "the shared memory has", encoded(many): "the shared memory has",
		encoded(wide): "the shared memory has"} {
		if r := ask(text); !strings.Contains(r.Error, want) {
			t.Errorf("%s: %q, want %s", text, r.Error, want)
		}
	}
	if r := ask(encoded(q)); r.Error != "" || r.Method != "cg" || r.Iterations < 20 || !(r.Residual < 1e-9) {
		t.Errorf("%+v", r)
	}
	requests.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A server ends when its client is gone, even during a solve.
func TestServeEndsWithItsClient(t *testing.T) {
	file, q := inMemory(t, must.Get(sparse.New("poisson", sparse.Params{Rows: 10000}))(t))
	q.Tol = 1e-300 // takes all iterations
	in, requests := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(t.Context(), in, io.Discard, file) }()
	must.Get(io.WriteString(requests, string(must.Get(json.Marshal(q))(t))+"\n"))(t)
	requests.Close()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the server still solves")
	}
}
