package web

import (
	"net/http"

	"github.com/kernbench/kernbench/internal/view/manual"
)

// docsContents answers with the list of pages of the documentation.
func docsContents(w http.ResponseWriter, _ *http.Request) { writeHTML(w, manual.Contents()) }

// docsPage answers with one page of the documentation.
func docsPage(w http.ResponseWriter, r *http.Request) {
	p, err := manual.Find(r.PathValue("topic"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	page, err := p.HTML()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeHTML(w, page)
}

func writeHTML(w http.ResponseWriter, page []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page) // a client that has gone away is no error of ours
}
