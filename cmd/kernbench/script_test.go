package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kernbench/kernbench/benches"
	"github.com/kernbench/kernbench/internal/cli"
	"github.com/kernbench/kernbench/internal/decl"
	"github.com/kernbench/kernbench/internal/launch"
	"github.com/kernbench/kernbench/internal/worker"
)

// all is what the tested kernbench is built with.
func all() []*decl.Bench { return append(benches.All(), faulty()) }

// Agents and workers are this binary started again under other names, so they
// are looked for before the scripts' commands are.
func TestMain(m *testing.M) {
	if code, is := launch.MaybeAgent(); is {
		os.Exit(code)
	}
	if code, is := worker.Maybe(all()); is {
		os.Exit(code)
	}
	testscript.Main(m, map[string]func(){"kernbench": func() { os.Exit(cli.Main(all())) }})
}
