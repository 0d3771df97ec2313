package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// call computes the answer to a request. It continues while the page that sent the request shows progress, and
// the next request for the same address gets its result.
type call struct {
	done     chan struct{}
	result   answer // valid when done is closed
	promised bool   // a page got its progress and will ask again; guarded by the server's callsMu
}

// answer is the JSON text of an answer, or an error.
type answer struct {
	text []byte
	err  error
}

const (
	maxCalls    = 64          // answers that are made at the same time
	keepAnswers = time.Minute // how long an answer waits for the page that asked for it
)

// encode returns a result as an answer.
func encode(data any, err error) answer {
	if err != nil {
		return answer{err: err}
	}
	text, err := json.Marshal(data)
	return answer{text, err}
}

// answer sends the result of find as JSON. A page that would have to wait for long gets the progress instead,
// with the status 202, and asks again.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, find func(*http.Request) (any, error)) {
	c, ok := s.begin(r, find)
	if !ok {
		http.Error(w, fmt.Sprintf("%d answers are being made already: try again", maxCalls),
			http.StatusServiceUnavailable)
		return
	}
	select {
	case <-c.done:
		s.forget(r.URL.String(), c)
		s.send(w, c.result)
	case <-s.timeout(r):
		s.promise(c)
		text, err := json.Marshal(s.store.progress(r.URL.Query()["run"]))
		if err != nil {
			s.fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		w.Write(text) // an error means that the reader has gone
	case <-r.Context().Done():
	}
}

// begin returns the call for a request: the one that is under way or a new one. ok is false if there are too
// many.
func (s *Server) begin(r *http.Request, find func(*http.Request) (any, error)) (c *call, ok bool) {
	address := r.URL.String()
	s.callsMu.Lock()
	defer s.callsMu.Unlock()
	if c := s.calls[address]; c != nil {
		return c, true
	}
	if len(s.calls) >= maxCalls {
		return nil, false
	}
	c = &call{done: make(chan struct{})}
	s.calls[address] = c
	go func() {
		defer func() {
			// net/http recovers from panics of a handler, but not of other goroutines.
			if p := recover(); p != nil {
				c.result = answer{err: fmt.Errorf("internal error: %v", p)}
			}
			close(c.done)
			s.finish(address, c)
		}()
		c.result = encode(find(r))
	}()
	return c, true
}

// promise keeps the answer of a call until the next request for it.
func (s *Server) promise(c *call) {
	s.callsMu.Lock()
	defer s.callsMu.Unlock()
	c.promised = true
}

// finish removes a call that is done, at once or after the time for the page to ask again.
func (s *Server) finish(address string, c *call) {
	s.callsMu.Lock()
	promised := c.promised
	s.callsMu.Unlock()
	if !promised {
		s.forget(address, c)
		return
	}
	time.AfterFunc(keepAnswers, func() { s.forget(address, c) })
}

// forget removes a call whose answer was delivered or is too old.
func (s *Server) forget(address string, c *call) {
	s.callsMu.Lock()
	defer s.callsMu.Unlock()
	if s.calls[address] == c {
		delete(s.calls, address)
	}
}

// send sends an answer.
func (s *Server) send(w http.ResponseWriter, a answer) {
	if a.err != nil {
		s.fail(w, a.err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(a.text) // an error means that the reader has gone
}

// progress returns how much is read of the journals of some runs.
func (s *store) progress(runs []string) (p progress) {
	p.Journals = []string{}
	for _, name := range runs {
		b, _, err := s.open(name)
		if err != nil {
			continue
		}
		if f, now := b.reading.Load(), b.size(); f != nil {
			p.Journals = append(p.Journals, b.folder)
			p.Bytes, p.Read = p.Bytes+now, p.Read+min(f.BytesRead(), now)
		}
	}
	return p
}
