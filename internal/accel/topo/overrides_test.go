package topo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
)

func with(t *testing.T, overrides string) *Topology {
	t.Helper()
	return must.Get(Parse("t.yaml", append(slices.Clone(defaultFile), "overrides:\n"+overrides...)))(t)
}

// An override of a link changes exactly the paths over it, and only its own hop.
func TestLinkOverride(t *testing.T) {
	plain := Default()
	before := NewWiring(plain)
	for _, name := range []string{"sip0.pcie_ep -> switch", "sip0.cube0.r0c1 -> r0c2", "sip1.cube3.pe0 -> r0c0"} {
		link, err := before.find(name)
		if err != nil {
			t.Fatal(err)
		}
		changed := with(t, "  links:\n    "+name+": {bw_gbs: 100, efficiency: 0.5, latency_ns: 7}\n")
		after := NewWiring(changed)
		over := 0
		ends := []End{{Kind: AtHost}, {Kind: AtHost, PEID: PEID{SIP: 1}}}
		for sip := range 2 {
			for _, cube := range []int{0, 3, 9} {
				for _, pe := range []int{0, 5} {
					id := PEID{sip, cube, pe}
					ends = append(ends, End{AtPE, id}, End{AtHBM, id}, End{AtSRAM, PEID{sip, cube, 0}})
				}
			}
		}
		for _, from := range ends {
			for _, to := range ends {
				old, err := before.Path(from, to)
				if err != nil {
					continue
				}
				now := must.Get(after.Path(from, to))(t)
				for i, hop := range old {
					if hop.Link == link {
						over++
						hop.BW, hop.Wire = 50_000, 7*event.Nanosecond
					}
					if now[i] != hop {
						t.Fatalf("%s: hop %d from %v to %v is %+v, want %+v", name, i, from, to, now[i], hop)
					}
				}
			}
		}
		if over == 0 || !Uneven(changed) || changed.SIPs.Symmetric() || Uneven(plain) || !plain.SIPs.Symmetric() {
			t.Errorf("%s: on %d paths", name, over)
		}
	}
}

// An override of a device changes only this device.
func TestDeviceOverride(t *testing.T) {
	c := with(t, "  devices:\n    sip0.cube2.pe3: {efficiency: 0.25}\n    sip1.cube0.pe0.hbm: {bw_gbs: 8}\n")
	slow, memory := PEID{0, 2, 3}, PEID{1, 0, 0}
	if ComputeTime(c, slow, 10) != 40 || ComputeTime(c, memory, 10) != 10 || ChannelBW(c, memory) != GBps(8) ||
		ChannelBW(c, slow) != c.Cube.HBM.ChannelBW {
		t.Errorf("%v, %v, %v, %v", ComputeTime(c, slow, 10), ComputeTime(c, memory, 10), ChannelBW(c, memory),
			ChannelBW(c, slow))
	}
	if _, err := c.WithSIPs(Ring, 1, 1); err == nil ||
		!strings.Contains(err.Error(), `unknown device "sip1.cube0.pe0.hbm"`) {
		t.Errorf("an override of a SIP that was removed: %v", err)
	}
	same := must.Get(Parameters("t.yaml", append(slices.Clone(defaultFile),
		"overrides:\n  devices:\n    sip0.cube2.pe3: {efficiency: 0.25}\n"...)))(t)
	if all := must.Get(Parameters("t.yaml", defaultFile))(t); len(same) != len(all) {
		t.Errorf("%d parameters, %d without overrides", len(same), len(all))
	}
}

// Unknown names and useless values are faults at their positions.
func TestOverrideFaults(t *testing.T) {
	at := fmt.Sprintf("t.yaml:%d:", strings.Count(string(defaultFile), "\n")+3)
	for text, want := range map[string]string{
		"  links:\n    sip0.pcie -> switch: {bw_gbs: 1}\n":      `unknown link "sip0.pcie -> switch", did you mean "sip0.pcie_ep -> switch"`,
		"  links:\n    sip7.noc -> cpu: {bw_gbs: 1}\n":          "there are only sip0 to sip1",
		"  links:\n    hast -> switch: {bw_gbs: 1}\n":           `did you mean "host -> switch"`,
		"  links:\n    sip0.cube0.r0c0 -> r-1c0: {bw_gbs: 1}\n": `unknown link "sip0.cube0.r0c0 -> r-1c0"`,
		"  links:\n    host -> switch: {}\n":                    "the override changes nothing",
		"  links:\n    host -> switch: {bandwidth_gbs: 1}\n":    `unknown key "bandwidth_gbs"`,
		"  links:\n    host -> switch: {efficiency: 2}\n":       "from 0.001 to 1",
		"  devices:\n    sip0.cube2: {efficiency: 0.5}\n":       `unknown device "sip0.cube2": want sip0.cube0.pe0 to sip1.cube15.pe7`,
		"  devices:\n    sip0.cube2.pe1: {bw_gbs: 5}\n":         "a PE has an efficiency, but no bandwidth",
		"  devices:\n    sip0.cube2.pe1: {latency_ns: 5}\n":     `unknown key "latency_ns"`,
	} {
		_, err := Parse("t.yaml", append(slices.Clone(defaultFile), "overrides:\n"+text...))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		} else if !strings.HasPrefix(err.Error(), at) {
			t.Errorf("no position: %v", err)
		}
	}
}

// TestDocumentedKeys reads the keys that docs/accelerator.md shows.
func TestDocumentedKeys(t *testing.T) {
	shown := 0
	for _, b := range golden.Pages(t)["docs/accelerator.md"] {
		if b.Kind != "yaml" {
			continue
		}
		shown++
		text := string(defaultFile)
		if strings.HasPrefix(b.Text, "overrides:") {
			text += b.Text
		} else { // keys of the system
			keys := "  " + strings.ReplaceAll(strings.TrimSpace(b.Text), "\n", "\n  ")
			text = strings.Replace(text, "  flit_bytes: 256\n", "  flit_bytes: 256\n"+keys+"\n", 1)
		}
		if _, err := Parse("my.yaml", []byte(text)); err != nil {
			t.Errorf("%s: %v", b, err)
		}
	}
	if shown != 2 {
		t.Errorf("the page shows %d blocks of keys, want 2", shown)
	}
}
