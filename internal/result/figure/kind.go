package figure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/registry"
	"github.com/kernbench/kernbench/internal/result/draw"
)

// Content fills a panel that is not a chart. A kind of content is one type, which
// its file registers in [Contents]. The exported fields are the description and its
// JSON form.
type Content interface {
	// Check adds the faults of the panel that holds the content.
	Check(p Panel, f Faults)
	// Prepare makes a drawing of a panel that has no faults.
	Prepare(p Panel) Drawing
}

// Drawing is a panel that is ready to be drawn anywhere on a page.
type Drawing interface {
	// Height returns the height that the panel needs at a width; usual is the height
	// of a chart.
	Height(w, usual float64) float64
	// Notes returns lines for the small print about data that is not visible, or "".
	Notes() string
	// Draw fills the area.
	Draw(p draw.Pen, area draw.Rectangle)
}

// ContentKind is a registered kind of content.
type ContentKind struct {
	Name string // its key in the JSON of a panel, and its name in messages
	Help string // one line
	// New returns an empty content for JSON to fill. It must be a pointer.
	New func() Content
}

// Contents is the registry of the kinds of content.
var Contents = registry.New("figure kind", func(k ContentKind) registry.Entry {
	return registry.Entry{Name: k.Name, Help: k.Help}
})

// kindOf returns the name under which the type of c is registered, and whether it is registered. For
// other types, name is the name of the Go type.
func kindOf(c Content) (name string, registered bool) {
	k, ok := lists.First(Contents.All(), func(k ContentKind) bool { return reflect.TypeOf(k.New()) == reflect.TypeOf(c) })
	if !ok {
		return fmt.Sprintf("%T", c), false
	}
	return k.Name, true
}

// content returns the panel's content, a chart by default.
func (p Panel) content() Content {
	if p.Content == nil {
		return chartContent{}
	}
	return p.Content
}

// panelFields is a Panel without its MarshalJSON method, to avoid recursion.
type panelFields Panel

// MarshalJSON writes the panel, with its content under the name of the content's kind.
func (p Panel) MarshalJSON() ([]byte, error) {
	fields, err := json.Marshal(panelFields(p))
	if err != nil || p.Content == nil {
		return fields, err
	}
	name, registered := kindOf(p.Content)
	if !registered {
		return nil, fmt.Errorf("panel of an unregistered kind %s", name)
	}
	content, err := json.Marshal(map[string]Content{name: p.Content})
	if err != nil {
		return nil, err
	}
	if len(fields) == len("{}") {
		return content, nil
	}
	return bytes.Join([][]byte{fields[:len(fields)-1], content[1:]}, []byte(",")), nil
}

// UnmarshalJSON reads a panel. A key with the name of a kind holds the content.
func (p *Panel) UnmarshalJSON(data []byte) error {
	var fields panelFields
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	for _, kind := range Contents.All() {
		part, has := parts[kind.Name]
		if !has || string(part) == "null" {
			continue
		}
		if fields.Content != nil {
			first, _ := kindOf(fields.Content)
			return fmt.Errorf("panel is a %s and a %s; give each its own panel", first, kind.Name)
		}
		fields.Content = kind.New()
		if err := json.Unmarshal(part, fields.Content); err != nil {
			return err
		}
	}
	*p = Panel(fields)
	return nil
}
