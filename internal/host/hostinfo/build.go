package hostinfo

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"
)

// Version is the released version, set when linking
// (-ldflags "-X github.com/kernbench/kernbench/internal/host/hostinfo.Version=v1.2.3");
// empty in a plain build, which then uses what the Go tool recorded.
var Version string

// modulePath tells kernbench's own module from that of a program built on it.
const modulePath = "github.com/kernbench/kernbench"

// Build is what is recorded of the program that measured.
type Build struct {
	Version   string `json:"version"`              // of kernbench; "devel" when unknown
	Program   string `json:"program,omitempty"`    // the main package, which may be a user's own
	Revision  string `json:"revision,omitempty"`   // of the tree the program was built from
	Modified  bool   `json:"modified,omitempty"`   // whether that tree had uncommitted changes
	GoVersion string `json:"go_version"`           // of the compiler
	GOARCH    string `json:"goarch"`               // what it compiled for
	ArchLevel string `json:"arch_level,omitempty"` // GOAMD64 or GOARM64, such as v3
}

// LocalBuild gives the facts of this program.
func LocalBuild() Build {
	info, _ := debug.ReadBuildInfo()
	return describe(info, Version)
}

// describe is LocalBuild without the globals; info may be nil.
func describe(info *debug.BuildInfo, linked string) Build {
	build := Build{Version: linked, GoVersion: runtime.Version(), GOARCH: runtime.GOARCH}
	if info != nil {
		build.Program = info.Path
		if build.Version == "" {
			build.Version = moduleVersion(info)
		}
		for _, setting := range info.Settings {
			switch setting.Key {
			case "vcs.revision":
				build.Revision = setting.Value
			case "vcs.modified":
				build.Modified = setting.Value == "true"
			case "GOAMD64", "GOARM64":
				build.ArchLevel = setting.Value
			}
		}
	}
	build.Version = cmp.Or(build.Version, "devel")
	return build
}

// moduleVersion finds kernbench among the program's modules: it is the main one or,
// in a user's program, a dependency. A local tree has no version.
func moduleVersion(info *debug.BuildInfo) string {
	for _, module := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if module.Path == modulePath && module.Version != "(devel)" && module.Replace == nil {
			return module.Version
		}
	}
	return ""
}

// String is the build in one line: "kernbench v1.2.3 (1a2b3c4d, modified), go1.26.0 amd64 v3".
func (b Build) String() string {
	text := "kernbench " + b.Version
	if b.Revision != "" {
		text += " (" + b.Revision[:min(len(b.Revision), 12)]
		if b.Modified {
			text += ", modified"
		}
		text += ")"
	}
	return text + ", " + strings.TrimSpace(b.GoVersion+" "+b.GOARCH+" "+b.ArchLevel)
}
