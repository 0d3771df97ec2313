package imports

import (
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
	"github.com/kernbench/kernbench/internal/result/llm"
	"github.com/kernbench/kernbench/internal/result/model"
)

// Claims reads claims about results from YAML:
//
//	claims:
//	  - text: latency-bound, not bandwidth-bound
//	    kind: bound
//	    bound: latency
//	  - text: a decode step of 256 MB takes 86 ms
//	    kind: decode
//	    model: llama3-70b
//	    size: 256M
//
// docs/models.md lists the kinds and their keys.
func Claims(name string, data []byte) ([]model.Claim, error) {
	r, root := yamlfile.Parse(name, data, "claims", "claims: a list")
	var out []model.Claim
	if root != nil {
		r.Struct(root, "the file", yamlfile.Field{Key: "claims", Read: func(n yamlfile.Node, what string) {
			items, _ := r.List(n, what)
			out = lists.Map(items, func(item yamlfile.Node) model.Claim { return claim(r, item) })
		}})
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

const (
	maxCount = 1 << 30
	milli    = 3 // decimal places of values
)

// claimReader reads the fields of a claim.
type claimReader struct{ *yamlfile.Reader }

// text returns a function that reads a text field into to.
func (r claimReader) text(to *string) func(yamlfile.Node, string) {
	return func(n yamlfile.Node, what string) {
		s, _ := r.Text(n, what)
		*to = s.Text
	}
}

// count returns a function that reads a positive integer into to.
func (r claimReader) count(to *int) func(yamlfile.Node, string) {
	return func(n yamlfile.Node, what string) { *to, _ = r.Int(n, what, 1, maxCount) }
}

// bytes returns a function that reads a size such as 256M into to.
func (r claimReader) bytes(to *int64) func(yamlfile.Node, string) {
	return func(n yamlfile.Node, what string) {
		s, ok := r.Text(n, what)
		if !ok {
			return
		}
		var err error
		if *to, err = unit.ParseBytes(s.Text); err != nil {
			r.Fault(n, "%s: %v", what, err)
		}
	}
}

// claim reads one claim and checks that it has the keys that its kind needs.
func claim(file *yamlfile.Reader, n yamlfile.Node) (c model.Claim) {
	r := claimReader{file}
	optional := func(key string, read func(yamlfile.Node, string)) yamlfile.Field {
		return yamlfile.Field{Key: key, Optional: true, Read: read}
	}
	r.Struct(n, "a claim",
		yamlfile.Field{Key: "text", Read: r.text(&c.Text)},
		yamlfile.Field{Key: "kind", Read: func(n yamlfile.Node, what string) {
			c.Kind, _ = r.Word(n, what, "kind of claim", model.ClaimKinds()...)
		}},
		optional("algorithm", r.text(&c.Algorithm)),
		optional("against", r.text(&c.Against)),
		optional("dtype", func(n yamlfile.Node, what string) {
			r.text(&c.DType)(n, what)
			c.DType = typeNamed(c.DType)
		}),
		optional("ranks", r.count(&c.Ranks)),
		optional("count", r.count(&c.Count)),
		optional("hidden", r.count(&c.Hidden)),
		optional("of", r.text(&c.Of)),
		optional("value", func(n yamlfile.Node, what string) {
			v, _ := r.Decimal(n, what, milli, 0, maxCount*1000)
			c.Value = float64(v) / 1000
		}),
		optional("size", r.bytes(&c.Bytes)),
		optional("bound", func(n yamlfile.Node, what string) {
			w, _ := r.Word(n, what, "bound", string(model.Latency), string(model.Bandwidth), string(model.Mixed))
			c.Bound = model.Bound(w)
		}),
		optional("model", func(n yamlfile.Node, what string) {
			name, _ := r.Word(n, what, "model", llm.Names()...)
			if m, err := llm.Named(name); err == nil {
				c.Hidden = m.Hidden
			}
		}),
	)
	if need, has := required(c); need != "" && !has {
		r.Fault(n, "a claim of kind %s needs %s", c.Kind, need)
	}
	return c
}

// required returns the keys that a kind of claim needs, and whether the claim has them.
func required(c model.Claim) (key string, has bool) {
	switch c.Kind {
	case model.ClaimBound:
		return "bound", c.Bound != ""
	case model.ClaimNoEffect:
		return "algorithm and against", c.Algorithm != "" && c.Against != ""
	case model.ClaimDecode:
		return "size, and model or hidden", c.Bytes > 0 && c.Hidden > 0
	case model.ClaimCount:
		return "count", c.Count > 0
	case model.ClaimUtilisation, model.ClaimBusBW:
		return "value", c.Value > 0
	case model.ClaimPotential:
		return "value and against", c.Value > 0 && c.Against != ""
	}
	return "", true
}
