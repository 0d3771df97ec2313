package point

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// NoFile is the value of an axis of files that stands for none: what is built in.
const NoFile = "built-in"

// hashDigits of a file's SHA-256 tell it from others in tables and figures.
const hashDigits = 12

var hashed = regexp.MustCompile(fmt.Sprintf("#[0-9a-f]{%d}$", hashDigits))

// FileValue is a file as a value of an axis: its path and the first digits of its SHA-256,
// so that rows of a file that was changed are not taken for rows of the file as it is.
func FileValue(path, sha string) Value { return StringValue(path + "#" + sha[:hashDigits]) }

// HashFile is the SHA-256 of a file, however large.
func HashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hashing %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// File is the path that a text value names, "" for none, and the first digits of the file's
// SHA-256 if the value has them.
func (v Value) File() (path, sha string) {
	if v.s == NoFile {
		return "", ""
	}
	suffix := hashed.FindString(v.s)
	return strings.TrimSuffix(v.s, suffix), strings.TrimPrefix(suffix, "#")
}
