package hostinfo

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDescribe(t *testing.T) {
	vcs := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"},
		{Key: "GOAMD64", Value: "v3"}, {Key: "CGO_ENABLED", Value: "0"},
	}
	own := func(version string) debug.Module { return debug.Module{Path: modulePath, Version: version} }
	tests := []struct {
		name   string
		info   *debug.BuildInfo
		linked string
		want   Build
	}{
		{"no information", nil, "", Build{Version: "devel"}},
		{"linked only", nil, "v1.2.3", Build{Version: "v1.2.3"}},
		{"a local tree", &debug.BuildInfo{Path: modulePath + "/cmd/kernbench", Main: own("(devel)"), Settings: vcs}, "",
			Build{Version: "devel", Program: modulePath + "/cmd/kernbench", Revision: "0123456789abcdef0123", Modified: true,
				ArchLevel: "v3"}},
		{"installed by version", &debug.BuildInfo{Main: own("v0.9.0")}, "", Build{Version: "v0.9.0"}},
		{"linking wins", &debug.BuildInfo{Main: own("v0.9.0")}, "v1.0.0", Build{Version: "v1.0.0"}},
		{"a user's program", &debug.BuildInfo{Path: "example.org/mine",
			Main: debug.Module{Path: "example.org/mine", Version: "v7.0.0"},
			Deps: []*debug.Module{{Path: "example.org/other", Version: "v3.0.0"}, {Path: modulePath, Version: "v0.8.0"}}}, "",
			Build{Version: "v0.8.0", Program: "example.org/mine"}},
		{"a user's program on a local tree", &debug.BuildInfo{Main: debug.Module{Path: "example.org/mine"},
			Deps: []*debug.Module{{Path: modulePath, Version: "v0.0.0", Replace: &debug.Module{Path: "../kernbench"}}}}, "",
			Build{Version: "devel"}},
	}
	for _, tt := range tests {
		tt.want.GoVersion, tt.want.GOARCH = runtime.Version(), runtime.GOARCH
		if diff := cmp.Diff(tt.want, describe(tt.info, tt.linked)); diff != "" {
			t.Errorf("%s: want (-) and got (+):\n%s", tt.name, diff)
		}
	}
}

func TestBuildString(t *testing.T) {
	tests := []struct {
		build Build
		want  string
	}{
		{Build{Version: "devel", GoVersion: "go1.26.0", GOARCH: "arm64"}, "kernbench devel, go1.26.0 arm64"},
		{Build{Version: "v1.2.3", Revision: "0123456789abcdef0123", Modified: true, GoVersion: "go1.26.0", GOARCH: "amd64",
			ArchLevel: "v3"},
			"kernbench v1.2.3 (0123456789ab, modified), go1.26.0 amd64 v3"},
		{Build{Version: "v1.2.3", Revision: "0123", GoVersion: "go1.26.0"}, "kernbench v1.2.3 (0123), go1.26.0"},
	}
	for _, tt := range tests {
		if got := tt.build.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
