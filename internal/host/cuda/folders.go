package cuda

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Folders lists where libraries beside the driver are installed: the toolkit's
// folders, and those of NVIDIA's Python packages, by the package's name, such as nccl.
func Folders(pip string) []string {
	list := []string{"$CUDA_HOME/lib64", "$CUDA_PATH/lib64"}
	for _, site := range []string{"$VIRTUAL_ENV/lib/python3*/site-packages", "$CONDA_PREFIX/lib/python3*/site-packages",
		"$PATH/../lib/python3*/site-packages", "$PATH/../lib/python3*/dist-packages",
		"$HOME/.local/lib/python3*/site-packages"} {
		list = append(list, fmt.Sprintf("%s/nvidia/%s/lib", site, pip), site+"/nvidia/cu[0-9]*/lib")
	}
	return append(list, "$CONDA_PREFIX/lib", "/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/opt/cuda/lib64")
}

// Count is how many GPUs there are for this process, found without opening the driver;
// 0 is unknown.
func Count(lookup func(string) (string, bool)) int {
	if visible, set := lookup("CUDA_VISIBLE_DEVICES"); set && visible != "" {
		return len(strings.Split(visible, ","))
	}
	files, _ := filepath.Glob("/dev/nvidia[0-9]*")
	return len(files)
}
