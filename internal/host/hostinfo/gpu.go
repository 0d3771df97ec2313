package hostinfo

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// driverVersion matches the release in the version file of NVIDIA's kernel module, whose open
// variant has "for x86_64" in between.
var driverVersion = regexp.MustCompile(`Kernel Module\s+(?:for \S+\s+)?(\d[\d.]*)`)

// readGPUs returns the models of the machine's NVIDIA GPUs ("8 x NVIDIA H200") and the release
// of their driver, as the kernel module reports them. Both are empty without the module.
func readGPUs(root fs.FS) (models, driver string) {
	if m := driverVersion.FindStringSubmatch(line(root, "proc/driver/nvidia/version")); m != nil {
		driver = "NVIDIA " + m[1]
	}
	files, _ := fs.Glob(root, "proc/driver/nvidia/gpus/*/information")
	var names []string
	for _, file := range files {
		for _, l := range lines(root, file) {
			if name, ok := strings.CutPrefix(l, "Model:"); ok {
				names = append(names, strings.Join(strings.Fields(name), " "))
			}
		}
	}
	groups := lists.GroupBy(names, func(name string) string { return name })
	texts := lists.Map(groups, func(g lists.Group[string, []string]) string {
		return fmt.Sprintf("%d x %s", len(g.Items), g.Key)
	})
	return strings.Join(texts, ", "), driver
}
