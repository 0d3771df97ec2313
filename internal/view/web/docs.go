package web

import (
	"net/http"
	"strings"

	"github.com/kernbench/kernbench/internal/view/manual"
)

// docsContents answers with the list of pages of the documentation.
func docsContents(w http.ResponseWriter, _ *http.Request) {
	writeHTML(w, http.StatusOK, manual.Contents())
}

// docsPage answers with one page of the documentation.
func docsPage(w http.ResponseWriter, r *http.Request) {
	p, err := manual.Find(r.PathValue("topic"))
	if err != nil {
		missingPage(w, r, err.Error())
		return
	}
	page, err := p.HTML()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeHTML(w, http.StatusOK, page)
}

// noPage answers requests for addresses that do not exist.
func noPage(w http.ResponseWriter, r *http.Request) {
	missingPage(w, r, "no page has the address "+r.URL.Path)
}

// missingPage answers that a page does not exist: a browser gets a page with links, a program gets text.
func missingPage(w http.ResponseWriter, r *http.Request, why string) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Error(w, why, http.StatusNotFound)
		return
	}
	writeHTML(w, http.StatusNotFound, manual.Missing(why))
}

func writeHTML(w http.ResponseWriter, status int, page []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page) // a client that has gone away is no error of ours
}
