// Command image writes a container image with one static program as an OCI archive. It needs no container engine and no
// base image: the image holds the program, its licences, and the empty folders /tmp and /work.
//
//	go run ./scripts/image -version 0.9.0 -arch amd64 -licences FILE -o kernbench.oci.tar kernbench
//
// `podman load -i kernbench.oci.tar` and `docker load -i kernbench.oci.tar` import it. The same input gives the same
// bytes.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// image is what goes into the archive.
type image struct {
	version, arch     string
	program, licences []byte
	created           time.Time
}

func main() {
	version := flag.String("version", "latest", "tag of the image")
	arch := flag.String("arch", "amd64", "architecture of the program, by its name in Go")
	licences := flag.String("licences", "", "file with the licences of the program")
	created := flag.Int64("created", 0, "when the program was made, in seconds since 1970")
	out := flag.String("o", "kernbench.oci.tar", "file to write")
	flag.Parse()
	im := image{version: *version, arch: *arch, created: time.Unix(*created, 0).UTC()}
	if err := write(*out, *licences, im); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func write(out, licences string, im image) (err error) {
	if flag.NArg() != 1 {
		return errors.New("want one argument: the program")
	}
	if im.program, err = infile.ReadRegular(flag.Arg(0), infile.Data); err != nil {
		return err
	}
	if im.licences, err = infile.ReadRegular(licences, infile.Data); err != nil {
		return err
	}
	return journal.WriteAtomic(out, im.write)
}

// descriptor refers to a blob of the archive.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Media types of the OCI image specification, version 1.
const (
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
	configType   = "application/vnd.oci.image.config.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
)

// write writes the archive: the layer, the configuration and the manifest as blobs, each named by its SHA-256, and an
// index that refers to the manifest.
func (im image) write(w io.Writer) error {
	files := tar.NewWriter(w)
	var failed error
	add := func(name string, data []byte) {
		failed = errors.Join(failed, writeFile(files, name, 0o644, im.created, data))
	}
	blob := func(mediaType string, data []byte) descriptor {
		sum := fmt.Sprintf("%x", sha256.Sum256(data))
		add("blobs/sha256/"+sum, data)
		return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(data)}
	}
	object := func(content any) []byte {
		text, err := json.Marshal(content)
		failed = errors.Join(failed, err)
		return text
	}
	layer, err := im.layer()
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(layer); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	add("oci-layout", object(map[string]string{"imageLayoutVersion": "1.0.0"}))
	config := blob(configType, object(map[string]any{
		"created": im.created, "architecture": im.arch, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/bin/kernbench"}, "Cmd": []string{"--help"},
			"Env": []string{"PATH=/bin", "HOME=/work"}, "WorkingDir": "/work"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	}))
	manifest := blob(manifestType, object(map[string]any{"schemaVersion": 2, "mediaType": manifestType, "config": config,
		"layers": []descriptor{blob(layerType, packed.Bytes())}}))
	name := "localhost/kernbench:" + tag(im.version)
	// Podman and skopeo look for the first annotation, containerd and Docker for the second.
	manifest.Annotations = map[string]string{"org.opencontainers.image.ref.name": name, "io.containerd.image.name": name}
	add("index.json", object(map[string]any{"schemaVersion": 2, "mediaType": indexType,
		"manifests": []descriptor{manifest}}))
	return errors.Join(failed, files.Close())
}

// tag returns a version as the tag of an image, which has no plus sign.
func tag(version string) string { return regexp.MustCompile(`[^\w.-]`).ReplaceAllString(version, "-") }

// layer returns the file system of the image.
func (im image) layer() ([]byte, error) {
	var b bytes.Buffer
	files := tar.NewWriter(&b)
	folder := func(name string, mode int64) error {
		return files.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode, ModTime: im.created})
	}
	err := errors.Join(folder("bin/", 0o755), writeFile(files, "bin/kernbench", 0o755, im.created, im.program),
		folder("tmp/", 0o1777), folder("work/", 0o1777),
		writeFile(files, "usr/share/doc/kernbench/THIRD_PARTY_NOTICES", 0o644, im.created, im.licences), files.Close())
	return b.Bytes(), err
}

func writeFile(files *tar.Writer, name string, mode int64, created time.Time, data []byte) error {
	err := files.WriteHeader(&tar.Header{Name: name, Mode: mode, ModTime: created, Size: int64(len(data))})
	if err == nil {
		_, err = files.Write(data)
	}
	return err
}
