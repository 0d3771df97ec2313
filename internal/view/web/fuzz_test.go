package web

import (
	"io"
	"net/http/httptest"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// Any request is answered or refused as the client's fault. /api/live is left out because it answers until the client
// leaves.
func FuzzRequest(f *testing.F) {
	paths := []string{"/api/run", "/api/rows", "/api/rows.csv", "/api/compare", "/api/history", "/api/inside",
		"/api/figure.svg", "/api/runs", "/docs/tutorial"}
	for i := range paths {
		f.Add(i, "run=.@r&a=.@r&b=.@s&only=n>0&sort=-time_us&from=1&columns=all&plot=x=n,y=time_us&figure=time_us&file=x")
	}
	f.Add(1, "run=.&sort=all")
	dir := f.TempDir()
	record(f, dir, "r", 2, 1, 2)
	record(f, dir, "s", 2, 1, 3)
	s := newServer(dir, "")
	f.Fuzz(func(t *testing.T, i int, query string) {
		r := httptest.NewRequest("GET", "http://127.0.0.1"+paths[uint(i)%uint(len(paths))], nil)
		r.URL.RawQuery = query
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if body := must.Get(io.ReadAll(w.Result().Body))(t); w.Code >= 500 {
			t.Errorf("%s?%q: %d: %s", r.URL.Path, query, w.Code, body)
		}
	})
}
