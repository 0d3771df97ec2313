package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
)

// TestMain is also the program of the test's image: it answers if it runs as /bin/kernbench.
func TestMain(m *testing.M) {
	if os.Args[0] == "/bin/kernbench" {
		here, _ := os.Getwd()
		err := os.WriteFile("/tmp/file", nil, 0o600)
		fmt.Println("in the image at", here, os.Args[1:], err)
		return
	}
	os.Exit(m.Run())
}

// unpack returns the plain files of an archive by name, and its folders with no content.
func unpack(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must.Do(t, err)
		files[h.Name] = must.Get(io.ReadAll(archive))(t)
	}
}

// blob returns a blob of an archive, whose digest and size must be right.
func blob(t *testing.T, files map[string][]byte, d descriptor) []byte {
	t.Helper()
	data := files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
	if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(data)); sum != d.Digest || len(data) != d.Size {
		t.Fatalf("%+v has %d bytes of %s", d, len(data), sum)
	}
	return data
}

// TestImage follows the archive from its index to the files, as a container engine does, and runs the program in them.
func TestImage(t *testing.T) {
	self := must.Get(os.Executable())(t)
	im := image{"0.9.0.dev0+gabc", "amd64", must.Get(os.ReadFile(self))(t), []byte("licences"), time.Unix(1e9, 0).UTC()}
	var archive, again bytes.Buffer
	must.Do(t, im.write(&archive))
	must.Do(t, im.write(&again))
	if !bytes.Equal(archive.Bytes(), again.Bytes()) {
		t.Error("the same input gives another archive")
	}
	files := unpack(t, &archive)
	var index struct{ Manifests []descriptor }
	must.Do(t, json.Unmarshal(files["index.json"], &index))
	if name := index.Manifests[0].Annotations["org.opencontainers.image.ref.name"]; len(index.Manifests) != 1 ||
		name != "localhost/kernbench:0.9.0.dev0-gabc" || string(files["oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("the index is %s", files["index.json"])
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	must.Do(t, json.Unmarshal(blob(t, files, index.Manifests[0]), &manifest))
	var config struct {
		Architecture, OS string
		Config           struct {
			Entrypoint []string
			WorkingDir string
		}
		Rootfs struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	must.Do(t, json.Unmarshal(blob(t, files, manifest.Config), &config))
	layer := must.Get(io.ReadAll(must.Get(gzip.NewReader(bytes.NewReader(blob(t, files, manifest.Layers[0]))))(t)))(t)
	if config.Architecture != "amd64" || config.OS != "linux" || len(manifest.Layers) != 1 ||
		fmt.Sprint(config.Rootfs.DiffIDs) != fmt.Sprintf("[sha256:%x]", sha256.Sum256(layer)) {
		t.Errorf("the configuration is %+v", config)
	}
	root := t.TempDir()
	for name, data := range unpack(t, bytes.NewReader(layer)) {
		if strings.HasSuffix(name, "/") {
			must.Do(t, os.MkdirAll(filepath.Join(root, name), 0o777))
			continue
		}
		must.Do(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o777))
		must.Do(t, os.WriteFile(filepath.Join(root, name), data, 0o777))
	}
	// A root folder and namespaces of its own are what a container engine gives to a process. Users other than root
	// may do this inside a user namespace.
	cmd := exec.Command(config.Config.Entrypoint[0], "version")
	cmd.Dir = config.Config.WorkingDir
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "in the image at /work [version] <nil>\n" {
		t.Errorf("the program in the image: %v\n%s", err, out)
	}
}

func TestTag(t *testing.T) {
	if got := tag("0.9.0.dev0+gabc.dirty"); got != "0.9.0.dev0-gabc.dirty" {
		t.Error(got)
	}
}
