package sweep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/bench/decl"
)

// number parses a finite number. Other values cannot be averaged or stored in JSON.
func number(text string) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("%q is not a finite number", clip(text))
	}
	return f, nil
}

// jsonPath is a metric source that takes numbers from a field of JSON output.
type jsonPath struct {
	text  string
	steps []jsonStep
}

// jsonStep is a field name, or an index if name is empty.
type jsonStep struct {
	name  string
	index int
}

var jsonStepRE = regexp.MustCompile(`^(?:\.?([^.\[\]]+)|\[([0-9]{1,9})\])`)

// parseJSONPath reads path.to[0].field.
func parseJSONPath(text string) (single, error) {
	path := jsonPath{text: text}
	for rest := text; rest != ""; {
		m := jsonStepRE.FindStringSubmatch(rest)
		if m == nil || rest == text && rest[0] == '.' {
			return nil, fmt.Errorf("%q is not a path such as time_us, result.time or runs[0].time", text)
		}
		step := jsonStep{name: m[1]}
		if m[2] != "" {
			step.index, _ = strconv.Atoi(m[2])
		} else if rest != text && rest[0] != '.' {
			return nil, fmt.Errorf("%q: want a . before %q", text, m[1])
		}
		path.steps = append(path.steps, step)
		rest = rest[len(m[0]):]
	}
	if len(path.steps) == 0 {
		return nil, fmt.Errorf("the path is empty")
	}
	return path, nil
}

func (p jsonPath) String() string { return "the JSON field " + p.text }

func (p jsonPath) samples(text []byte, _ decl.RankOutput) ([]float64, error) {
	docs, err := p.documents(text)
	var samples []float64
	for _, doc := range docs {
		if samples, err = p.walk(doc, p.steps, samples); err != nil {
			break
		}
	}
	return samples, err
}

// documents returns the whole text if it is one JSON value, otherwise every line that is an object. A line that
// is no JSON, but names the field, is an error: Python writes NaN, whose sample would be lost.
func (p jsonPath) documents(text []byte) (docs []any, err error) {
	var doc any
	if json.Unmarshal(text, &doc) == nil {
		return []any{doc}, nil
	}
	name := []byte(strconv.Quote(p.steps[0].name))
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); !bytes.HasPrefix(line, []byte("{")) {
			continue
		}
		var doc any
		switch err := json.Unmarshal(line, &doc); {
		case err == nil:
			docs = append(docs, doc)
		case bytes.Contains(line, name):
			return nil, fmt.Errorf("the line %q is not JSON: %w", clip(string(line)), err)
		}
	}
	return docs, nil
}

// walk collects the numbers at the end of a path. A name applied to a list applies to each of its
// items, and a list at the end of the path contributes all its numbers.
func (p jsonPath) walk(v any, steps []jsonStep, found []float64) ([]float64, error) {
	var err error
	switch x := v.(type) {
	case nil:
		return found, nil // null means not measured
	case []any:
		if len(steps) > 0 && steps[0].name == "" {
			if steps[0].index >= len(x) {
				return found, nil
			}
			return p.walk(x[steps[0].index], steps[1:], found)
		}
		for _, item := range x {
			if found, err = p.walk(item, steps, found); err != nil {
				return nil, err
			}
		}
		return found, nil
	case map[string]any:
		if len(steps) > 0 && steps[0].name != "" {
			return p.walk(x[steps[0].name], steps[1:], found)
		}
	case float64:
		if len(steps) == 0 {
			return append(found, x), nil
		}
	}
	if len(steps) > 0 {
		return found, nil
	}
	shown, _ := json.Marshal(v)
	return nil, fmt.Errorf("%s is %s, not a number", p.text, clip(string(shown)))
}

// wallUnits are the possible units of wall time.
var wallUnits = map[string]time.Duration{"ns": 1, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}

// wall is a metric source: the program's run time in the given unit.
type wall string

func (w wall) String() string { return "the wall time" }

func (w wall) samples(_ []byte, out decl.RankOutput) ([]float64, error) {
	return []float64{float64(out.Wall) / float64(wallUnits[string(w)])}, nil
}

// clip shortens a text for an error message.
func clip(text string) string {
	const maxRunes = 200
	if runes := []rune(text); len(runes) > maxRunes {
		return string(runes[:maxRunes]) + "..."
	}
	return text
}
