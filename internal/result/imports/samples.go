package imports

import (
	"fmt"
	"os"
	"strings"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

// Samples reads the all-reduces of a RUN or of a CSV file, and describes the source in words.
func Samples(name string) (samples []model.Sample, source string, err error) {
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && !strings.HasSuffix(name, ".jsonl") {
		text, err := infile.Read(name, infile.Table)
		if err != nil {
			return nil, "", err
		}
		file, err := Read("csv", name, string(text), Given{})
		if err != nil {
			return nil, "", err
		}
		rows := Rows(file.Records, Source{Name: name}, 0, map[string]int{})
		return model.SamplesOf(dataset.All(rows)), "the file " + name, nil
	}
	_, run, err := journal.LoadRun(name)
	if err != nil {
		return nil, "", err
	}
	return model.SamplesOf(dataset.Of(run).Rows), fmt.Sprintf("run %s of bench %s", run.ID(), run.Header.Bench), nil
}

// SamplesDigest returns the SHA-256 of the all-reduces of a RUN or of a CSV file.
func SamplesDigest(name string) (string, error) {
	samples, _, err := Samples(name)
	return model.Digest(samples), err
}
