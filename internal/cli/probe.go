package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/probe"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// probeFormats are the words of --format, the default first.
var probeFormats = []string{"table", "json"}

func (a *app) probeCommand() *cobra.Command {
	var quick bool
	var out string
	var cores []int
	format := probeFormats[0]
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Measure this host's limits: memory bandwidth and latencies between cores",
		Long: `Measures how fast 1 to n cores copy and read memory, from the first cache to
main memory, and how long a cache line, a futex wake and a message over a unix
or TCP socket take from one core to another, and how fast cores exchange what
lies in their own memory. Benches compare their times with these numbers.

The result is kept in the user's cache folder, by class of host, and is used
until the host or kernbench changes; a bench that finds none makes a quick one.
--cores measures only the given core counts, which takes less time; the result
needs --out, because for other counts it is only a guess.
Nothing else should run at the same time.`,
		Example: fmt.Sprintf(`  %[1]s probe
  %[1]s probe --quick --format json
  %[1]s probe --out limits.json && %[1]s run --bench collectives --probe limits.json
  %[1]s probe --cores 2,16 --out limits.json`, a.name),
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(probeFormats, format) {
				return usage(suggest.Unknown("format", format, probeFormats))
			}
			if len(cores) > 0 && out == "" {
				return usage(errors.New("--cores measures only part of this host's limits, which is not stored for other runs: name a file with --out"))
			}
			profile := probe.Thorough
			if quick {
				profile = probe.Quick
			}
			profile.Counts = cores
			r, err := probe.Measure(cmd.Context(), profile, time.Now())
			if errors.Is(err, probe.ErrCounts) {
				return usage(fmt.Errorf("--cores: %w", err))
			}
			if err != nil {
				return err
			}
			if out == "" {
				if out, err = probe.Path(hostinfo.Local()); err != nil {
					return err
				}
			}
			if err := probe.Save(out, r); err != nil {
				return err
			}
			fmt.Fprintf(a.stderr, "wrote %s\n", out)
			return writeProbe(a.stdout, format, r)
		},
	}
	cmd.Flags().BoolVar(&quick, "quick", false, "fewer sizes: takes a few seconds")
	cmd.Flags().IntSliceVar(&cores, "cores", nil, "only these core counts (default: the powers of two, and all)")
	cmd.Flags().StringVar(&format, "format", format, "what to print: "+strings.Join(probeFormats, ", "))
	cmd.Flags().StringVar(&out, "out", "", "`FILE` to write (default: in the user's cache folder)")
	return cmd
}

// writeProbe shows a result as a table for people, or as it is stored.
func writeProbe(w io.Writer, format string, r probe.Result) error {
	if format == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	t := texttab.Table{Columns: []texttab.Column{{Title: "cores", Right: true}, {Title: "set per core", Right: true},
		{Title: "copy GB/s", Right: true}, {Title: "read GB/s", Right: true}}}
	for i, c := range r.Copy {
		read := ""
		if i < len(r.Read) && r.Read[i].Cores == c.Cores && r.Read[i].Bytes == c.Bytes {
			read = unit.FormatSig(r.Read[i].GBps, 3)
		}
		t.Add(fmt.Sprint(c.Cores), unit.FormatBytes(c.Bytes), unit.FormatSig(c.GBps, 3), read)
	}
	if err := t.Write(w, 0); err != nil {
		return err
	}
	t = texttab.Table{Columns: []texttab.Column{{Title: "one way"}, {Title: "us", Right: true}}}
	for _, h := range r.Hops {
		t.Add(fmt.Sprintf("cache line, core %d to %d", h.From, h.To), unit.FormatSig(h.US, 3))
	}
	for _, l := range []struct {
		name string
		us   float64
	}{{"futex wake", r.FutexWake}, {"unix socket", r.Unix}, {"TCP loopback", r.TCP}} {
		if l.us > 0 {
			t.Add(l.name, unit.FormatSig(l.us, 3))
		}
	}
	if len(t.Lines) == 0 {
		return nil // a single core has nobody to talk to
	}
	fmt.Fprintln(w)
	if err := t.Write(w, 0); err != nil || len(r.Exchange) == 0 {
		return err
	}
	t = texttab.Table{Columns: []texttab.Column{{Title: "cores", Right: true}, {Title: "set per core", Right: true}, {Title: "exchange GB/s per core", Right: true}}}
	for _, c := range r.Exchange {
		t.Add(strconv.Itoa(c.Cores), unit.FormatBytes(c.Bytes), unit.FormatSig(c.GBps, 3))
	}
	fmt.Fprintln(w)
	return t.Write(w, 0)
}
