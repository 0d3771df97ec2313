package cli

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/cli/guide"
	"github.com/kernbench/kernbench/internal/cli/terminal"
)

// TestCommandsPage compares docs/commands.md with the commands. -update writes it.
func TestCommandsPage(t *testing.T) {
	root := must.Get((&app{name: "kernbench"}).root(context.Background()))(t)
	page := commandsPage(t, root)
	golden.CheckFile(t, "../../docs/commands.md", page)
	for _, want := range []string{"- [baseline check](#baseline-check): ", "\n## baseline check\n", "| `--trials` | count | the bench's own, ",
		"| `-f`, `--file` | FILE |", "**Sampling**"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
}

// commandsPage returns the page about all commands.
func commandsPage(t *testing.T, root *cobra.Command) string {
	t.Helper()
	var list, sections strings.Builder
	run := find(root, "run")
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		if !c.IsAvailableCommand() || c.HasParent() && c.Parent().Name() == "completion" {
			return
		}
		if c.HasParent() {
			name := strings.TrimPrefix(c.CommandPath(), root.Name()+" ")
			fmt.Fprintf(&list, "- [%s](#%s): %s\n", name, strings.ReplaceAll(name, " ", "-"), marked(c.Short))
			writeCommand(&sections, c, name, run)
			if c.Example == "" {
				t.Errorf("%s has no example", name)
			}
		}
		for _, sub := range c.Commands() {
			add(sub)
		}
	}
	add(root)
	return "# Commands\n\n" +
		"This page lists every command of kernbench with its usage, its flags and examples. In the terminal,\n" +
		"`kernbench COMMAND --help` describes one command, and `kernbench man FOLDER` writes manual pages.\n\n" +
		list.String() + "\n" +
		"Every command also has `--help`, and `--max-input SIZE`, which raises the size limit of input files. A flag can be\n" +
		"written `--flag value` or `--flag=value`. A flag without a value is off unless it is given.\n\n" +
		strings.TrimLeft(paragraphs(runHelp), "\n") + paragraphs(specHelp) +
		"\nThis page is made from the help texts in the code.\n" + sections.String()
}

func find(root *cobra.Command, name string) *cobra.Command {
	c, _, _ := root.Find([]string{name})
	return c
}

// writeCommand writes the section of a command. Flags that it shares with run are left out.
func writeCommand(b *strings.Builder, c *cobra.Command, name string, run *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n\nUsage: %s\n", name, marked(c.Short), texttab.Code(c.UseLine()))
	if c.Long != "" {
		b.WriteString(paragraphs(strings.NewReplacer(runHelp, "", specHelp, "").Replace(c.Long)))
	}
	sections, shared := guide.Sections(c), false
	for _, s := range sections {
		var rows strings.Builder
		for _, f := range s.Flags {
			t := guide.Describe(f)
			if of := run.Flags().Lookup(f.Name); c != run && len(sections) > 1 && of != nil && guide.Describe(of) == t {
				shared = true
			} else if f.Name != "help" {
				fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", strings.ReplaceAll(t.Name, ", ", "`, `"), marked(t.Value),
					marked(t.Default), marked(t.Meaning))
			}
		}
		if rows.Len() == 0 {
			continue
		}
		if len(sections) > 1 {
			fmt.Fprintf(b, "\n**%s**\n", s.Title)
		}
		b.WriteString("\n| flag | value | default | meaning |\n|---|---|---|---|\n" + rows.String())
	}
	if shared {
		b.WriteString("\nAll other flags are the same as for [run](#run).\n")
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n"))
	}
}

var (
	entry     = regexp.MustCompile(`^  (\S.*?)  +(\S.*)$`) // of a list with two columns
	continued = regexp.MustCompile(`^ {6,}(\S.*)$`)        // of its second column
	literal   = regexp.MustCompile("`[^`]+`|'[^' ][^']*'|(?:^|[ (])--?[a-z][a-z-]*(?: [A-Z]{2,}(?::[A-Z]+)?| \\d(?:[^ ,;)]*[^ ,;).])?| [a-z]+=[^ ;)]*[^ ,;).])?")
	topicName = regexp.MustCompile(`^kernbench docs ([a-z-]+)$`)
)

// paragraphs returns a help text in Markdown, with an empty line before each paragraph. Indented lines become a list,
// or commands.
func paragraphs(text string) string {
	var b strings.Builder
	open := "" // what the last line belongs to
	for _, line := range strings.Split(text, "\n") {
		switch m, more := entry.FindStringSubmatch(line), continued.FindStringSubmatch(line); {
		case strings.TrimSpace(line) == "":
			open = ""
		case more != nil && open == "list":
			b.WriteString("  " + marked(more[1]) + "\n")
		case m != nil:
			if open != "list" {
				b.WriteString("\n")
			}
			open = "list"
			b.WriteString("- " + marked(m[1]) + ": " + marked(m[2]) + "\n")
		case strings.HasPrefix(line, "  "):
			open = ""
			b.WriteString("\n```sh\n" + strings.TrimSpace(line) + "\n```\n")
		default:
			if open != "text" {
				b.WriteString("\n")
			}
			open = "text"
			b.WriteString(marked(line) + "\n")
		}
	}
	return b.String()
}

// marked returns text of a help in Markdown. Quoted text and flags become code, and the names of pages links.
func marked(text string) string {
	var b strings.Builder
	out := texttab.ForMarkdown(&b)
	for text != "" {
		at := literal.FindStringIndex(text)
		if at == nil || at[1] > len(text) {
			at = []int{len(text), len(text)}
		}
		_ = out.Printf("%s", text[:at[0]]) // a strings.Builder does not fail
		code := text[at[0]:at[1]]
		text = text[at[1]:]
		if bare := strings.TrimLeft(code, " ("); bare != code {
			b.WriteString(code[:len(code)-len(bare)])
			code = bare
		}
		code = strings.Trim(code, "`'")
		switch topic := topicName.FindStringSubmatch(code); {
		case topic != nil:
			b.WriteString("[" + texttab.Code(code).String() + "](" + topic[1] + ".md)")
		case code != "":
			b.WriteString(texttab.Code(code).String())
		}
	}
	return b.String()
}

// A spelling that is gone is unknown, and the error names the nearest one. No flag is a mode of another command.
func TestUnknownSpellings(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"show out/m --runs", `unknown flag "--runs"`},
		{"show out/m --verify", `unknown flag "--verify"`},
		{"show out/m --samples csv", `unknown flag "--samples"`},
		{"compare a b --trials 6", `unknown flag "--trials"`},
		{"compare --run a b", `unknown flag "--run"`},
		{"compare a --history", `unknown flag "--history"`},
		{"history a --ignore cpu", `unknown flag "--ignore"`},
		{"ab a b --by n", `unknown flag "--by"`},
		{"report a --why fastest-1", `unknown flag "--why" (known: `},
		{"histroy a", `unknown command "histroy", did you mean "history"?`},
		{"sample a", `unknown command "sample", did you mean "samples"?`},
		{"ab a.yaml", "ab: want two sides"},
		{"history a b", "history: want one RUN folder"},
		{"predict --errors", `unknown flag "--errors"`},
		{"probe --topology built-in", `unknown flag "--topology"`},
		{"probe --published", `unknown flag "--published"`},
		{"predict", "predict: want fit or errors"},
		{"why a", "why: want a RUN folder and the ID of a sentence"},
	} {
		var errs strings.Builder
		a := &app{name: "kernbench", args: strings.Fields(c.args), stdout: texttab.ForTerminal(&errs),
			stderr: texttab.ForTerminal(&errs), output: terminal.NewOutput(io.Discard)}
		if code := a.run(t.Context()); code != exitUsage || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit code %d: %s", c.args, code, errs.String())
		}
	}
}

// The commands that start processes, or listen, are the ones that clean up.
func TestCleanup(t *testing.T) {
	var own []string
	for _, c := range must.Get((&app{name: "kernbench"}).root(context.Background()))(t).Commands() {
		if c.Annotations["kernbench_cleans_up"] != "" {
			own = append(own, c.Name())
		}
	}
	if got := strings.Join(own, " "); got != "ab doctor launch probe run selftest tune web" {
		t.Errorf("the commands %s clean up", got)
	}
}
