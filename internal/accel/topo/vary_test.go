package topo

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// numbers calls a function for every exported number in a value, with its field path.
func numbers(v reflect.Value, path string, do func(path, value string)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				numbers(v.Field(i), path+"."+f.Name, do)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			numbers(v.Index(i), path, do)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			numbers(v.MapIndex(k), path+"."+k.String(), do)
		}
	case reflect.Int, reflect.Int64:
		do(path, fmt.Sprint(v.Int()))
	}
}

func flatten(t *Topology) map[string]string {
	all := map[string]string{}
	numbers(reflect.ValueOf(t).Elem(), "", func(path, value string) { all[path] += value + " " })
	return all
}

// Every number of a topology is changed by some parameter. The test finds a field that no key fills.
func TestParametersCoverTheTopology(t *testing.T) {
	text := strings.NewReplacer("overhead_ns: 0", "overhead_ns: 1", "penalty_ns: 0",
		"penalty_ns: 1").Replace(string(DefaultFile()))
	base := must.Get(Parse("f", []byte(text)))(t)
	before := flatten(base)
	list := must.Get(Parameters("f", []byte(text)))(t)
	moved := map[string]bool{}
	for _, p := range list {
		effect := false
		for _, factor := range []float64{0.5, 1.5, 2} {
			varied, values, err := Vary("f", []byte(text), p.Key, factor)
			if err != nil {
				continue
			}
			if len(values) != len(p.Values) {
				t.Errorf("%s: %v became %v", p.Key, p.Values, values)
			}
			for path, value := range flatten(varied) {
				if value != before[path] {
					moved[path], effect = true, true
				}
			}
		}
		// These cannot be changed alone: a grid must fit its positions, and the built-in file leaves some keys out.
		if stuck := strings.HasPrefix(p.Key, "cube.pe_grid.") || p.Key == "system.sips.w" ||
			p.Key == "system.sips.h"; stuck == effect {
			t.Errorf("%s has an effect: %v", p.Key, effect)
		}
	}
	for path := range before {
		if !moved[path] && !strings.HasPrefix(path, ".Cube.PEGrid") && path != ".SIPs.Grid.H" {
			t.Errorf("no parameter moves %s", path)
		}
	}
	if len(list) < 60 {
		t.Errorf("only %d parameters", len(list))
	}
}

func TestVary(t *testing.T) {
	data := DefaultFile()
	for _, c := range []struct {
		key    string
		factor float64
		values string // or the reason
	}{
		{"system.link.latency_ns", 1.2, "51.841"},
		{"system.link.latency_ns", 0.8, "34.561"},
		{"pe.gemm.tile", 1.2, "38, 77, 38"},
		{"cube.hbm.efficiency", 0.8, "0.8"},
		{"cube.hbm.efficiency", 1.2, `want a number with at most 3 decimals from 0.001 to 1, have "1.2"`},
		{"cube.hbm.burst_bytes", 1.2, "want a power of two, have 307"},
		{"cube.hbm.burst_bytes", 2, "512"},
		{"system.sips.count", 1.2, "it is 2, and no whole number is close enough to the wanted value"},
		{"sip.cubes.w", 1.25, "5"},
		{"sip.cubes.w", 1.2, "it is 4, and no whole number is close enough to the wanted value"},
		{"cube.noc.router_overhead_ns", 1.2, "it is 0, and a percentage of 0 is 0"},
		{"system.sips.w", 1.2, "the file does not have it"},
		{"cube.pe_grid.w", 1.5, "cube.pe_pos_mm has 8 positions, but cube.pe_grid is 6 x 2"},
		{"cube.pe_pos_mm", 1.2, "cube.pe_pos_mm[3] lies outside of the cube"},
	} {
		m, values, err := Vary("topology.yaml", data, c.key, c.factor)
		got := strings.Join(values, ", ")
		if err != nil {
			got = err.Error()
		}
		if got != c.values || (m == nil) != (err != nil) {
			t.Errorf("%s x %g: %q, want %q", c.key, c.factor, got, c.values)
		}
	}
	changed, _, err := Vary("f", data, "cube.ucie.bw_gbs", 1.2)
	if err != nil || changed.Cube.UCIeBW != Bandwidth(153_600) || Default().Cube.UCIeBW != GBps(128) {
		t.Errorf("%v, %v", changed.Cube.UCIeBW, err)
	}
}

// A key that only the user's file has is a parameter too.
func TestOptionalParameters(t *testing.T) {
	text := strings.Replace(string(DefaultFile()), "    # w: 2 ", "    w: 2\n    h: 1 ", 1)
	for data, want := range map[string][]string{text: {"2"}, string(DefaultFile()): nil} {
		list := must.Get(Parameters("f", []byte(data)))(t)
		i := slices.IndexFunc(list, func(p Parameter) bool { return p.Key == "system.sips.w" })
		if i < 0 || !slices.Equal(list[i].Values, want) {
			t.Errorf("system.sips.w is not found with %v", want)
		}
	}
}
