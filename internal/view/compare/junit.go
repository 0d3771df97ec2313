package compare

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/kernbench/kernbench/internal/base/texttab"
)

// The part of JUnit's XML that the common readers agree on.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
		Out      string      `xml:"system-out,omitempty"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitMessage `xml:"failure"`
		Skipped *junitMessage `xml:"skipped"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
	}
)

// writeJUnit makes each pair a test: slower and lost fail it, ambiguous skips
// it, so that a build server shows all three apart.
func (r Report) writeJUnit(w io.Writer, _ int) error {
	suite := junitSuite{Name: "kernbench compare " + r.OldRun + " " + r.NewRun, Tests: len(r.Pairs), Out: texttab.Plain(strings.Join(r.Warnings, "; "))}
	for _, p := range r.Pairs {
		c := junitCase{Class: strings.ReplaceAll(p.group, "/", "."), Name: strings.Join(p.fields, " ")}
		message := p.message(r)
		switch p.Verdict {
		case Slower, Lost:
			suite.Failures++
			c.Failure = &junitMessage{Message: message, Type: string(p.Verdict)}
		case Ambiguous, Broken:
			suite.Skipped++
			c.Skipped = &junitMessage{Message: message}
		default:
			c.Out = message
		}
		suite.Cases = append(suite.Cases, c)
	}
	text, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{suite}}, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, xml.Header+string(text)+"\n")
	return err
}

// message is a pair in one sentence.
func (p Pair) message(r Report) string {
	text := string(p.Verdict)
	if change, interval, prob := p.Effect.text(); change != "" {
		text += fmt.Sprintf(": %s %s -> %s, %s", r.Metric, p.Old.text(), p.New.text(), change)
		if interval != "" {
			text += " (95% interval " + interval + ", p " + prob + ")"
		}
	}
	if len(p.Notes) > 0 {
		text += "; " + strings.Join(p.Notes, "; ")
	}
	return texttab.Plain(text)
}
