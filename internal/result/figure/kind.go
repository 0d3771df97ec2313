package figure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/kernbench/kernbench/internal/result/draw"
)

// Content is what fills a panel other than a chart. A kind of content is one
// type: its fields are the description and its JSON, Check says what is wrong
// with it, Prepare how it is drawn. [Register] makes it known.
type Content interface {
	// Check adds what is wrong with the panel that holds the content.
	Check(p Panel, f Faults)
	// Prepare makes a panel without faults ready to be drawn.
	Prepare(p Panel) Drawing
}

// Drawing is a panel made ready. It does not depend on where on the page the panel goes.
type Drawing interface {
	// Height is what the panel needs at a width, where others have the usual height.
	Height(w, usual float64) float64
	// Notes say what is not to be seen, for the small print; empty for nothing.
	Notes() string
	// Draw fills the area.
	Draw(p draw.Pen, area draw.Rectangle)
}

// kinds makes empty contents, by the name that a kind has in JSON and in messages.
var kinds = map[string]func() Content{}

// Register makes a kind of content known: blank makes an empty one, a pointer,
// for JSON to fill. It is called from the file of the kind, when the program starts.
func Register(name string, blank func() Content) {
	if kinds[name] != nil {
		panic("figure: duplicate kind " + name)
	}
	kinds[name] = blank
}

// kindOf is the name a content was registered with, or its type.
func kindOf(c Content) string {
	for name, blank := range kinds {
		if reflect.TypeOf(blank()) == reflect.TypeOf(c) {
			return name
		}
	}
	return fmt.Sprintf("%T", c)
}

// content is what fills the panel.
func (p Panel) content() Content {
	if p.Content == nil {
		return chartContent{}
	}
	return p.Content
}

// panelFields is a panel without its methods, for encoding/json.
type panelFields Panel

// MarshalJSON writes the panel with its content under the name of its kind.
func (p Panel) MarshalJSON() ([]byte, error) {
	fields, err := json.Marshal(panelFields(p))
	if err != nil || p.Content == nil {
		return fields, err
	}
	name := kindOf(p.Content)
	if kinds[name] == nil {
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

// UnmarshalJSON reads what MarshalJSON wrote.
func (p *Panel) UnmarshalJSON(data []byte) error {
	var fields panelFields
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		part, has := parts[name]
		if !has || string(part) == "null" {
			continue
		}
		if fields.Content != nil {
			return fmt.Errorf("panel is a %s and a %s; give each its own panel", kindOf(fields.Content), name)
		}
		fields.Content = kinds[name]()
		if err := json.Unmarshal(part, fields.Content); err != nil {
			return err
		}
	}
	*p = Panel(fields)
	return nil
}
