// Package web shows a folder of results in a browser: which runs there are, what
// each found, what is under way, and how runs compare. It serves one page and the
// data behind it; the words, figures and statistics are those of packages report,
// export and compare.
//
// It only reads. Nothing from a journal reaches the browser as HTML: the page is
// static and puts every text in as text, and its policy forbids all scripts and
// styles but its own. Every answer is bounded.
package web

import (
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
)

//go:embed assets
var assets embed.FS

// Options say what is served and to whom.
type Options struct {
	Dir   string                    // the folder of results
	Bench func(string) *bench.Bench // the bench of a name, nil where it is not known
	// who does not show it is refused; "" lets everybody in who can reach a loopback address
	Token  string
	Cookie string // the name under which a browser keeps the token
	Index  string // the folder for what is made of large journals; "" keeps nothing
	Build  string // which program this is
}

// Server answers requests.
type Server struct {
	opts  Options
	store *store
	lives chan struct{} // a place for every stream
	mux   http.ServeMux
}

// maxStreams is how many pages may follow runs at once.
const maxStreams = 64

// New makes a server. Without a token it must be reached by loopback only.
func New(opts Options) *Server {
	s := &Server{opts: opts, store: newStore(opts.Dir, opts.Bench, index{opts.Index, opts.Build}),
		lives: make(chan struct{}, maxStreams)}
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	s.mux.Handle("GET /assets/", http.StripPrefix("/assets/", http.FileServerFS(files)))
	for _, page := range []string{"/{$}", "/run", "/compare", "/history"} {
		s.mux.HandleFunc("GET "+page, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFileFS(w, r, files, "page.html")
		})
	}
	for path, answer := range map[string]func(*http.Request) (any, error){
		"/api/runs": s.runs, "/api/run": s.indexed(s.run), "/api/inside": s.inside, "/api/rows": s.indexed(s.rows),
		"/api/compare": s.compare, "/api/history": s.history,
	} {
		s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, answer) })
	}
	s.mux.HandleFunc("GET /api/live", s.live)
	s.mux.HandleFunc("GET /api/rows.csv", s.csv)
	s.mux.HandleFunc("GET /api/figure.svg", s.picture)
	return s
}

// NewToken is a word that nobody guesses.
func NewToken() string { return rand.Text() }

// policy is what the browser may load and run: what this server sends.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; " +
	"connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP lets in who may come in.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
		http.Error(w, "kernbench web only shows: want GET", http.StatusMethodNotAllowed)
	case s.opts.Token == "" && !loopback(r.Host):
		// Another site's name may be made to mean this host; its pages must not read ours.
		http.Error(w, "this server is for the loopback address only: open http://127.0.0.1 or http://localhost with its port", http.StatusForbidden)
	case s.opts.Token != "" && r.URL.Query().Has("token"):
		s.logIn(w, r)
	case s.opts.Token != "" && !s.same(s.shown(r)):
		h.Set("WWW-Authenticate", "Bearer")
		http.Error(w, "the token is missing or wrong: open the address that kernbench web printed, or send it as "+
			"Authorization: Bearer TOKEN", http.StatusUnauthorized)
	default:
		s.mux.ServeHTTP(w, r)
	}
}

// logIn trades a token in the address for a cookie, so that it does not stay in the
// address, nor in links that are passed on.
func (s *Server) logIn(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if !s.same(query.Get("token")) {
		http.Error(w, "the token in the address is wrong", http.StatusUnauthorized)
		return
	}
	query.Del("token")
	http.SetCookie(w, &http.Cookie{Name: s.opts.Cookie, Value: s.opts.Token, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode})
	// The path is the server's own word for it: never another host's.
	path := "/" + strings.TrimLeft(r.URL.EscapedPath(), "/\\")
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	w.Header().Set("Location", path)
	w.WriteHeader(http.StatusSeeOther)
}

// shown is the token that a request brings, as a header or as the cookie.
func (s *Server) shown(r *http.Request) string {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return token
	}
	if c, err := r.Cookie(s.opts.Cookie); err == nil {
		return c.Value
	}
	return ""
}

// same compares in a time that tells nothing.
func (s *Server) same(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(s.opts.Token)) == 1
}

// loopback reports whether a Host header names this host and no other.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// badRequest is a mistake in the address, which the reader can mend.
type badRequest struct{ error }

// notFound is something that is not there (any more).
type notFound struct{ error }

// answer sends what a function finds as JSON.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, find func(*http.Request) (any, error)) {
	data, err := find(r)
	if err != nil {
		s.fail(w, err)
		return
	}
	text, err := json.Marshal(data)
	if err != nil {
		s.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text) // the reader who has gone does not miss it
}

// fail says what went wrong, as text.
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

// Limits of a connection: a slow or idle one must not hold the server.
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	maxHeader  = 1 << 16
)

// HTTP is the server for a listener.
func (s *Server) HTTP() *http.Server {
	return &http.Server{Handler: s, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader}
}
