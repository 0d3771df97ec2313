package figure

import (
	"encoding/json"
	"math"
)

// JSON has no NaN and no infinity, yet a row that failed may well carry one.
// They are written as null and read back as NaN, which is drawn the same way: not at all.

type pointJSON struct {
	X    *float64 `json:"x"`
	Y    *float64 `json:"y"`
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
}

type cellJSON struct {
	Value *float64 `json:"value"`
	Text  string   `json:"text,omitempty"`
}

// MarshalJSON writes the point; without an error bar low and high are left out.
func (p Point) MarshalJSON() ([]byte, error) {
	out := pointJSON{X: finiteOrNil(p.X), Y: finiteOrNil(p.Y)}
	if p.Low != 0 || p.High != 0 {
		out.Low, out.High = finiteOrNil(p.Low), finiteOrNil(p.High)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote. A missing end of an error bar
// leaves the bar out, as NaN would.
func (p *Point) UnmarshalJSON(data []byte) error {
	var in pointJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*p = Point{X: orNaN(in.X), Y: orNaN(in.Y)}
	if in.Low != nil || in.High != nil {
		p.Low, p.High = orNaN(in.Low), orNaN(in.High)
	}
	return nil
}

// MarshalJSON writes the cell.
func (c Cell) MarshalJSON() ([]byte, error) {
	return json.Marshal(cellJSON{Value: finiteOrNil(c.Value), Text: c.Text})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *Cell) UnmarshalJSON(data []byte) error {
	var in cellJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*c = Cell{Value: orNaN(in.Value), Text: in.Text}
	return nil
}

func finiteOrNil(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func orNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}
