// Package report makes views with pictures from the journal.
package report

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/kernbench/kernbench/internal/decl"
	"github.com/kernbench/kernbench/internal/figure"
	"github.com/kernbench/kernbench/internal/journal"
)

type Plot struct {
	X, Y string
	By   []string
}

func ParsePlot(text string) (Plot, error) { return Plot{X: strings.TrimPrefix(text, "x=")}, nil }
func (p Plot) Figure(h *journal.Header, rows []journal.Row) (figure.Figure, error) {
	return figure.Figure{}, fmt.Errorf("stub")
}

type Input struct {
	Bench *decl.Bench
	Run   *journal.Run
	Plots []Plot
}

func Render(dir string, in Input) ([]string, error) {
	var files []string
	if in.Bench != nil && in.Bench.Figures != nil {
		for _, f := range in.Bench.Figures(in.Run.Latest()) {
			fs, err := figure.Write(filepath.Join(dir, "figures"), f)
			if err != nil {
				return nil, err
			}
			files = append(files, fs...)
		}
	}
	return files, nil
}
