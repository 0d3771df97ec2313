//go:build !race

package main

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
)

// TestQuotedMessages checks that the program can print the messages that docs/faq.md explains: the ones in quotes in
// headings, in the first column of tables, and in blocks marked "message" on any page. At least 40 % of each message
// must consist of texts in the code: the rest are numbers and names.
func TestQuotedMessages(t *testing.T) {
	page := string(must.Get(os.ReadFile("../../docs/faq.md"))(t))
	messages := quotedMessages(page)
	for _, blocks := range golden.Pages(t) {
		for _, b := range blocks {
			if b.Kind == "message" {
				messages = append(messages, strings.Join(strings.Fields(b.Text), " "))
			}
		}
	}
	if len(messages) < 15 {
		t.Errorf("only %d messages were found: has the form of the page changed?", len(messages))
	}
	texts := constantTexts(t, "../..")
	for _, m := range messages {
		if share := coverage(m, texts); share < 0.4 {
			t.Errorf("only %.0f %% of this message is in the code: %s", 100*share, m)
		}
	}
	for _, planted := range []string{"the secrets are not the same ones", "rank 1 was asleep while the program went on"} {
		if share := coverage(planted, texts); share >= 0.4 {
			t.Errorf("%.0f %% of a message that does not exist was found: %s", 100*share, planted)
		}
	}
}

func quotedMessages(page string) (messages []string) {
	for _, line := range strings.Split(page, "\n") {
		for _, form := range []string{`^## .*"([^"]+)"$`, "^\\| `([^`]+ [^`]+)` \\|"} {
			if m := regexp.MustCompile(form).FindStringSubmatch(line); m != nil {
				messages = append(messages, m[1])
			}
		}
	}
	return messages
}

// constantTexts returns the pieces of all strings in the Go code below a folder. Verbs of formats separate them, and
// the values and brackets of the templates of conditions.
func constantTexts(t *testing.T, root string) map[string]bool {
	t.Helper()
	texts := map[string]bool{}
	verb := regexp.MustCompile(`%[-+#0-9.\[\]]*[a-zA-Z]|\{[a-z_]+( [^}]*)?\}[\[\]]*|[\[\]]`)
	must.Do(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source := must.Get(os.ReadFile(path))(t)
		var s scanner.Scanner
		files := token.NewFileSet()
		s.Init(files.AddFile(path, -1, len(source)), source, nil, 0)
		joined := "" // literals that + joins
		for last := token.ILLEGAL; ; {
			_, tok, lit := s.Scan()
			if tok == token.STRING {
				if last != token.ADD {
					joined = ""
				}
				joined += must.Get(strconv.Unquote(lit))(t)
				for _, piece := range verb.Split(joined, -1) {
					texts[strings.ReplaceAll(piece, "%%", "%")] = true
				}
			}
			if tok == token.EOF {
				return nil
			}
			last = tok
		}
	}))
	return texts
}

// coverage returns the share of a message that consists of the given texts. Words and numbers alone do not count.
func coverage(message string, texts map[string]bool) float64 {
	covered := make([]bool, len(message))
	for text := range texts {
		if len(strings.Fields(text)) < 2 || len(text) < 8 {
			continue
		}
		if at := strings.Index(message, strings.TrimSpace(text)); at >= 0 {
			for i := range strings.TrimSpace(text) {
				covered[at+i] = true
			}
		}
	}
	n := 0
	for _, c := range covered {
		if c {
			n++
		}
	}
	return float64(n) / float64(len(strings.TrimSuffix(message, "...")))
}
