package topo

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

// override changes one link or device of a topology.
type override struct {
	name       string
	device     bool
	bw         Bandwidth   // of the link, or of a channel of the HBM; 0: not changed
	latency    *event.Time // of the link; nil: not changed
	efficiency int64       // thousandths of the bandwidth or, for a PE, of its speed, that are available; 0: all
}

// overrides holds the overrides of a topology, and what they name.
type overrides struct {
	list  []override
	links map[int32]*override
	pes   map[PEID]*override // the engines of PEs
	hbms  map[PEID]*override
}

// rate returns a bandwidth after the override.
func (o *override) rate(bw Bandwidth) Bandwidth {
	if o.bw > 0 {
		bw = o.bw
	}
	if o.efficiency > 0 {
		bw = max(1, bw*Bandwidth(o.efficiency)/1000)
	}
	return bw
}

// Uneven reports whether some link or device differs from the others of its kind.
func Uneven(t *Topology) bool { return len(t.overrides.list) > 0 }

// ComputeTime returns how long the engines of a PE take for work that takes the given time on a PE without an override.
func ComputeTime(t *Topology, pe PEID, took event.Time) event.Time {
	if o := t.overrides.pes[pe]; o != nil {
		return (took*1000 + event.Time(o.efficiency) - 1) / event.Time(o.efficiency)
	}
	return took
}

// ChannelBW returns the bandwidth of a channel of a PE's share of the HBM.
func ChannelBW(t *Topology, pe PEID) Bandwidth {
	if o := t.overrides.hbms[pe]; o != nil {
		return o.rate(t.Cube.HBM.ChannelBW)
	}
	return t.Cube.HBM.ChannelBW
}

// Path returns the route between two ends, with the overrides of its links.
func (w *Wiring) Path(from, to End) (Path, error) {
	p, err := w.path(from, to)
	if len(w.t.overrides.links) == 0 {
		return p, err
	}
	for i := range p {
		o := w.t.overrides.links[p[i].Link]
		if o == nil {
			continue
		}
		p[i].BW = o.rate(p[i].BW)
		if o.latency != nil {
			p[i].Wire = *o.latency
		}
	}
	return p, err
}

// overridden reads the section overrides. The names are checked when the rest of the file is known.
func (r reader) overridden() yamlfile.Field {
	section := func(key string, device bool) yamlfile.Field {
		return yamlfile.Field{Key: key, Read: func(n yamlfile.Node, what string) {
			entries, _ := r.Mapping(n, what)
			for _, e := range entries {
				o := override{name: e.Key, device: device}
				r.override(&o, e, what+"["+e.Key+"]")
				r.t.overrides.list = append(r.t.overrides.list, o)
				*r.named = append(*r.named, e.At)
			}
		}}.Opt()
	}
	return r.Group("overrides", section("links", false), section("devices", true)).Opt()
}

// override reads the values of one override.
func (r reader) override(o *override, e yamlfile.Entry, what string) {
	fields := []yamlfile.Field{r.rate("bw_gbs", &o.bw).Opt(),
		yamlfile.DecimalField(r.Reader, "efficiency", &o.efficiency, 3, 1, 1000).Opt()}
	if !o.device {
		fields = append(fields, yamlfile.Field{Key: "latency_ns", Read: func(n yamlfile.Node, what string) {
			o.latency = new(event.Time)
			r.ns("", o.latency).Read(n, what)
		}}.Opt())
	}
	r.Struct(e.Value, what, fields...)
	if len(r.Peek(e.Value)) == 0 {
		r.Fault(e.At, "%s: the override changes nothing", what)
	}
}

// applyOverrides looks up the links and devices that the overrides name. It returns an error, or nil, for each
// override.
func (t *Topology) applyOverrides() (faults []error) {
	o := &t.overrides
	o.links, o.pes, o.hbms = map[int32]*override{}, map[PEID]*override{}, map[PEID]*override{}
	w := NewWiring(t)
	for i := range o.list {
		item := &o.list[i]
		if !item.device {
			link, err := w.find(item.name)
			o.links[link] = item
			faults = append(faults, err)
			continue
		}
		var pe PEID
		text, isHBM := strings.CutSuffix(item.name, ".hbm")
		n, err := fmt.Sscanf(text, "sip%d.cube%d.pe%d", &pe.SIP, &pe.Cube, &pe.PE)
		switch {
		case n != 3 || err != nil || pe.String() != text || !t.has(pe):
			faults = append(faults, fmt.Errorf("unknown device %q: want sip0.cube0.pe0 to %v for a PE, or with .hbm for its "+
				"share of the HBM", item.name, t.At(t.TotalPEs()-1)))
			continue
		case isHBM:
			o.hbms[pe] = item
		case item.bw > 0:
			faults = append(faults, fmt.Errorf("device %q: a PE has an efficiency, but no bandwidth", item.name))
			continue
		default:
			o.pes[pe] = item
		}
		faults = append(faults, nil)
	}
	return faults
}

// find returns the number of the link with a name.
func (w *Wiring) find(name string) (int32, error) {
	first, last := w.sip*w.t.SIPs.Count, w.Links() // the links of the host
	if rest, ok := strings.CutPrefix(name, "sip"); ok {
		number, _, _ := strings.Cut(rest, ".")
		sip, err := strconv.Atoi(number)
		if err != nil || sip < 0 || sip >= w.t.SIPs.Count {
			return -1, fmt.Errorf("unknown link %q: there are only sip0 to sip%d", name, w.t.SIPs.Count-1)
		}
		first, last = sip*w.sip, (sip+1)*w.sip
	}
	var names []string
	for link := first; link < last; link++ {
		if !w.exists(link) {
			continue
		}
		known := w.LinkName(link)
		if known == name {
			return int32(link), nil
		}
		names = append(names, known)
	}
	near := suggest.Nearest(name, names)
	if near != "" {
		near = fmt.Sprintf(", did you mean %q?", near)
	}
	return -1, fmt.Errorf("unknown link %q%s (links are named as in profiles: %q)", name, near, names[len(names)-1])
}

// exists reports whether a number stands for a link. Routers have four numbers, also at the edges of a cube.
func (w *Wiring) exists(link int) bool {
	noc := &w.t.Cube.Noc
	local := link % w.sip
	if link >= w.sip*w.t.SIPs.Count || local >= w.cube*w.t.Cubes.Count() {
		return true // of the host or of an IO chiplet
	}
	local %= w.cube
	if local >= noc.Rows*noc.Cols*4 {
		return true // of an end or a port
	}
	at := router{local / 4 / noc.Cols, local / 4 % noc.Cols}
	rows, cols := Side(local % 4).Step()
	return noc.exists(at) && noc.exists(router{at.row + rows, at.col + cols})
}

// resolveOverrides applies the overrides again after the size of the topology has changed.
func (t *Topology) resolveOverrides() error {
	t.SIPs.uneven = Uneven(t)
	if !Uneven(t) {
		return nil
	}
	return errors.Join(t.applyOverrides()...)
}
