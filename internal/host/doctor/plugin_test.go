package doctor

import "github.com/kernbench/kernbench/internal/host/dynlib"

// The package that uses the library keeps the spec in a variable and passes it to dynlib.Open.
var _ = dynlib.Register(dynlib.Spec{
	Name:    "Plug-in library",
	Sonames: []string{"libplugin.so.1", "libplugin.so"},
	Env:     "KERNBENCH_PLUGIN",
	Hint:    "Debian: libplugin1",
})
