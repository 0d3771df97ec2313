package worker

import (
	"encoding/base64"
	"slices"
	"testing"

	"github.com/kernbench/kernbench/internal/host/jobenv"
)

// An environment that was corrected is the planned one, and other variables keep their values.
func FuzzCorrectEnv(f *testing.F) {
	encode := base64.StdEncoding.EncodeToString
	f.Add(`["`+encode([]byte("A=1"))+`","`+encode([]byte("B"))+`"]`, "A=2")
	f.Add(`[""]`, "")
	f.Add(`["PQ==","QT0B"]`, "=")
	f.Fuzz(func(t *testing.T, planned, other string) {
		environ := []string{other, plannedVar + "=" + encode([]byte(planned))}
		fixed, _, err := correctEnv(environ)
		if err != nil {
			return
		}
		if _, differs, err := correctEnv(append(slices.Clone(fixed), environ[1])); err != nil || differs {
			t.Errorf("%q with %q became %q: %v", other, planned, fixed, err)
		}
		if _, has := jobenv.Variables(fixed)[plannedVar]; has {
			t.Errorf("%q still has %s", fixed, plannedVar)
		}
	})
}
