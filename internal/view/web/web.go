// Package web shows a folder of results in a browser: the runs in it, the results of
// each run, the progress of unfinished runs, and comparisons of runs. It serves one
// static page and the data for it as JSON. The content of the data comes from
// packages report, export and compare.
//
// The server only reads. Nothing from a journal reaches the browser as HTML: the
// page inserts every value as text, and its content security policy forbids scripts
// and styles other than its own. The size of every answer is bounded.
package web

import (
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/docs"
)

//go:embed assets
var assets embed.FS

// Options configures a Server.
type Options struct {
	Dir   string                    // the folder of results
	Bench func(string) *bench.Bench // returns the bench with a name, or nil
	// Token must accompany every request. Without a token the server accepts all
	// requests to a loopback address.
	Token  string
	Cookie string // the name of the cookie that holds the token
	Index  string // the folder for indexes of large journals; "" disables them
	Build  string // identifies the program that made an index
}

// Server is an HTTP handler for a folder of results.
type Server struct {
	opts    Options
	store   *store
	streams chan struct{} // a semaphore: one slot per open stream
	mux     http.ServeMux

	stall, streamTime, patience time.Duration // limits of a connection; tests shorten them

	callsMu sync.Mutex       // guards calls and call.promised
	calls   map[string]*call // by address
}

// maxStreams is the number of pages that may follow runs at the same time.
const maxStreams = 64

// New returns a server. Without a token it must listen on a loopback address only.
func New(opts Options) *Server {
	s := &Server{opts: opts, store: newStore(opts.Dir, opts.Bench, index{opts.Index, opts.Build}),
		streams: make(chan struct{}, maxStreams), stall: stallTime, streamTime: streamTime, patience: patience,
		calls: map[string]*call{}}
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // cannot happen: the folder is embedded
	}
	s.mux.Handle("GET /assets/", http.StripPrefix("/assets/", http.FileServerFS(files)))
	for _, page := range []string{"/{$}", "/run", "/compare", "/history"} {
		s.mux.HandleFunc("GET "+page, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFileFS(w, r, files, "page.html")
		})
	}
	s.mux.HandleFunc("GET /api/runs", func(w http.ResponseWriter, r *http.Request) {
		list, err := s.runs(r)
		s.send(w, encode(list, err))
	})
	for path, find := range map[string]func(*http.Request) (any, error){
		"/api/run": s.indexed(s.run), "/api/inside": s.inside, "/api/rows": s.indexed(s.rows),
		"/api/compare": s.compare, "/api/history": s.history,
	} {
		s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, find) })
	}
	s.mux.HandleFunc("GET /docs/{$}", docsContents)
	s.mux.HandleFunc("GET /docs/{topic}", docsPage)
	s.mux.Handle("GET /docs/files/", http.StripPrefix("/docs/files/", http.FileServerFS(docs.Files)))
	s.mux.HandleFunc("GET /", noPage)
	s.mux.HandleFunc("GET /api/live", s.live)
	s.mux.HandleFunc("GET /api/rows.csv", s.csv)
	s.mux.HandleFunc("GET /api/figure.svg", s.picture)
	return s
}

// NewToken returns a random token that cannot be guessed.
func NewToken() string { return rand.Text() }

// policy lets the browser load and run nothing but the files of this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP checks the method and the token and then answers the request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = &deadlineWriter{w, http.NewResponseController(w), s.stall}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "kernbench web is read-only: want GET or HEAD", http.StatusMethodNotAllowed)
	case s.opts.Token == "" && !loopback(r.Host):
		// DNS rebinding: another site may make its own name resolve to this host. Its
		// pages must not read our data.
		http.Error(w, "this server accepts only loopback addresses: open http://127.0.0.1 or http://localhost with its port",
			http.StatusForbidden)
	case s.opts.Token != "" && r.URL.Query().Has("token"):
		s.logIn(w, r)
	case s.opts.Token != "" && !s.tokenMatches(s.requestToken(r)):
		h.Set("WWW-Authenticate", "Bearer")
		http.Error(w, "the token is missing or wrong: open the address that kernbench web printed, or send it as "+
			"Authorization: Bearer TOKEN", http.StatusUnauthorized)
	default:
		s.mux.ServeHTTP(w, r)
	}
}

// logIn moves the token from the address into a cookie, so that it does not appear in
// the address bar or in copied links.
func (s *Server) logIn(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if !s.tokenMatches(query.Get("token")) {
		http.Error(w, "the token in the address is wrong", http.StatusUnauthorized)
		return
	}
	query.Del("token")
	http.SetCookie(w, &http.Cookie{Name: s.opts.Cookie, Value: s.opts.Token, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode})
	// One leading slash only: //host would redirect to another host.
	path := "/" + strings.TrimLeft(r.URL.EscapedPath(), "/\\")
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	w.Header().Set("Location", path)
	w.WriteHeader(http.StatusSeeOther)
}

// requestToken returns the token of a request, from its header or its cookie.
func (s *Server) requestToken(r *http.Request) string {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return token
	}
	if c, err := r.Cookie(s.opts.Cookie); err == nil {
		return c.Value
	}
	return ""
}

// tokenMatches compares tokens in constant time, so that the duration reveals nothing.
func (s *Server) tokenMatches(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(s.opts.Token)) == 1
}

// loopback reports whether a Host header names the loopback interface.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// badRequest is an error in the request's parameters.
type badRequest struct{ error }

// notFound is an error about a run, row or file that does not exist (any more).
type notFound struct{ error }

// fail sends an error as text with the fitting status code.
func (s *Server) fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch {
	case errors.As(err, &badRequest{}):
		code = http.StatusBadRequest
	case errors.As(err, &notFound{}):
		code = http.StatusNotFound
	}
	http.Error(w, err.Error(), code)
}

// Limits of a connection, so that slow or idle clients do not occupy the server.
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	maxHeader  = 1 << 16
	stallTime  = 30 * time.Second // for a client to accept writeChunk bytes
	writeChunk = 1 << 16
	// streamTime is how long a stream lasts. The page then opens another one. A client that never reads
	// would otherwise occupy its stream for ever, because a few short events fit into the buffers of the
	// connection.
	streamTime = 10 * time.Minute
)

// HTTP returns an http.Server with the limits of a connection.
func (s *Server) HTTP() *http.Server {
	return &http.Server{Handler: s, ReadHeaderTimeout: headerTime, WriteTimeout: s.stall,
		IdleTimeout: idleTime, MaxHeaderBytes: maxHeader}
}

// deadlineWriter disconnects a client that accepts no data for a while. A deadline for the whole
// answer, as http.Server has, would also end long downloads over slow lines, and streams.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
}

// Unwrap gives http.ResponseController access to the connection.
func (w *deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// extend starts the time for the next bytes. Writers that are no connections, as in tests, have no deadline.
func (w *deadlineWriter) extend() { _ = w.control.SetWriteDeadline(time.Now().Add(w.stall)) }

func (w *deadlineWriter) WriteHeader(code int) {
	w.extend()
	w.ResponseWriter.WriteHeader(code)
}

func (w *deadlineWriter) Write(data []byte) (n int, err error) {
	for {
		w.extend()
		written, err := w.ResponseWriter.Write(data[n:min(n+writeChunk, len(data))])
		if n += written; err != nil || n == len(data) {
			return n, err
		}
	}
}
