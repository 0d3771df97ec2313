package launch

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/must"
)

// Overrides that are read are written so that they are read again.
func FuzzEnvOverrides(f *testing.F) {
	one := "\xff=1"
	f.Add(must.Get(json.Marshal(EnvOverrides{"A": nil, "B": &one}))(f))
	f.Add([]byte(`["","QQ==","QT0=","QQ=="]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var set, again EnvOverrides
		if json.Unmarshal(text, &set) != nil {
			return
		}
		must.Do(t, json.Unmarshal(must.Get(json.Marshal(set))(t), &again))
		if d := cmp.Diff(set, again); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	})
}
