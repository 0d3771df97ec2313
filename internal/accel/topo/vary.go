package topo

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

// Parameter is a key of a topology file that holds a number, or several: the three of a tile, say.
type Parameter struct {
	Key    string   // with those above it: cube.hbm.burst_bytes
	Values []string // as they are written; none where the file leaves an optional key out
}

// Parameters lists what numbers a topology file has. It asks the reader of the file, so that
// what is added there is here too.
func Parameters(name string, data []byte) ([]Parameter, error) {
	var found []Parameter
	add := func(key string, values ...string) {
		i := slices.IndexFunc(found, func(p Parameter) bool { return p.Key == key })
		if i < 0 {
			i = len(found)
			found = append(found, Parameter{Key: key})
		}
		found[i].Values = append(found[i].Values, values...)
	}
	_, err := parse(name, data, func(r *yamlfile.Reader) {
		r.Absent = func(what string) { add(what) }
		r.Number = func(what, text string, _ int) string {
			add(keyOf(what), text)
			return text
		}
	})
	return found, err
}

// keyOf is the key of a number, which may be one of a list: cube.pe_pos_mm[3].
func keyOf(what string) string {
	key, _, _ := strings.Cut(what, "[")
	return key
}

// Vary reads a topology file with the numbers of one key multiplied by a factor, and says what they
// are then. It is an error if they cannot be: what is 0 stays 0, counts have no fractions, and what
// the file may not hold it may not hold here either.
func Vary(name string, data []byte, key string, factor float64) (t *Topology, values []string, err error) {
	var faults []error
	moved := false
	t, err = parse(name, data, func(r *yamlfile.Reader) {
		r.Number = func(what, text string, digits int) string {
			if keyOf(what) != key {
				return text
			}
			other, err := scaled(text, digits, factor)
			if err != nil {
				faults = append(faults, err)
				other = text
			}
			moved = moved || other != text
			values = append(values, other)
			return other
		}
	})
	switch {
	case len(faults) > 0:
		return nil, nil, faults[0]
	case err != nil:
		return nil, nil, plain(name, key, err)
	case len(values) == 0:
		return nil, nil, errors.New("the file does not have it")
	case !moved:
		return nil, nil, errors.New("it is 0, and so is any part of it")
	}
	return t, values, nil
}

// tolerance is how far a change may be from the wanted one, as a share of it.
const tolerance = 0.1

// scaled multiplies a number, and rounds it to one that the file may have.
func scaled(text string, digits int, factor float64) (string, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text, nil // the reader says what is wrong
	}
	unit := math.Pow10(digits)
	want := v * factor
	got := math.Round(want*unit) / unit
	if math.Abs(got-want) > tolerance*math.Abs(want-v) {
		kind := "whole number"
		if digits > 0 {
			kind = fmt.Sprintf("number with %d decimals", digits)
		}
		return "", fmt.Errorf("it is %s, and no %s is near", text, kind)
	}
	return strconv.FormatFloat(got, 'f', -1, 64), nil
}

// plain is the first thing that is wrong, without the place in the file, which does not say what is read.
func plain(name, key string, err error) error {
	text := err.Error()
	if in, is := errors.AsType[*yamlfile.Error](err); is {
		text = in.Faults[0].Msg
	}
	text, _, _ = strings.Cut(strings.TrimPrefix(text, name+": "), "\n")
	return errors.New(strings.TrimPrefix(text, key+": "))
}
