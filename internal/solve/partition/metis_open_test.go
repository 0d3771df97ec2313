//go:build !nodl && linux

package partition

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/host/dynlib"
)

func TestMetisAbsentIsAnError(t *testing.T) {
	for _, tc := range []struct {
		file, want string
	}{
		{"/no/such/libmetis.so.5", "Debian: libmetis5"},
		{"libc.so.6", "METIS (libc.so.6) has no METIS_PartGraphKway"},
	} {
		_, err := loadMetis(dynlib.Spec{Name: "METIS", Sonames: []string{tc.file}, Hint: metisSpec.Hint})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", tc.file, err, tc.want)
		}
	}
}
