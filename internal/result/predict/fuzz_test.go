package predict

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// Any cluster file is read or refused. One that is read can be written and read again.
func FuzzParse(f *testing.F) {
	for _, name := range must.Get(filepath.Glob("clusters/*.yaml"))(f) {
		f.Add(must.Get(os.ReadFile(name))(f))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("c.yaml", data)
		if err != nil {
			return
		}
		if again, err := Parse("c.yaml", []byte(c.YAML())); err != nil || again.Nodes != c.Nodes || again.GPUs != c.GPUs {
			t.Errorf("%+v, then %+v: %v", c, again, err)
		}
	})
}
