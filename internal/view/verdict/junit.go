package verdict

import (
	"encoding/xml"
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

// writeJUnit makes each point a test: a bad verdict fails it, an undecided one skips
// it, so that a build server shows them apart.
func (r Report) writeJUnit(w io.Writer, _ int) error {
	suite := junitSuite{Name: r.Suite, Tests: len(r.Lines), Out: texttab.Plain(strings.Join(r.Warnings, "; "))}
	for _, l := range r.Lines {
		c := junitCase{Class: l.Class, Name: l.Name}
		switch l.Outcome {
		case Failed:
			suite.Failures++
			c.Failure = &junitMessage{Message: l.Message, Type: l.Verdict}
		case Undecided:
			suite.Skipped++
			c.Skipped = &junitMessage{Message: l.Message}
		default:
			c.Out = l.Message
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
