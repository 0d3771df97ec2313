package point

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/kernbench/kernbench/internal/base/infile"
)

// NoFile is the value of a file axis that stands for the built-in content.
const NoFile = "built-in"

// hashDigits is the number of digits of a SHA-256 that identify a file in tables and figures.
const hashDigits = 12

var hashed = regexp.MustCompile(fmt.Sprintf("#[0-9a-f]{%d}$", hashDigits))

// FileValue returns a file as a value of an axis. The value contains the path and the first
// digits of the SHA-256, so that rows measured before and after a change of the file differ.
func FileValue(path, sha string) Value { return StringValue(path + "#" + sha[:hashDigits]) }

// HashFile returns the SHA-256 of a file in hexadecimal digits.
func HashFile(path string) (string, error) {
	f, err := infile.Open(path, infile.Data)
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

// File returns the path in a text value, or "" for NoFile, and the first digits of the
// SHA-256 if the value contains them.
func (v Value) File() (path, sha string) {
	if v.s == NoFile {
		return "", ""
	}
	suffix := hashed.FindString(v.s)
	return strings.TrimSuffix(v.s, suffix), strings.TrimPrefix(suffix, "#")
}

var (
	validName    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)
	validEnvName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// ValidName reports whether s may be the name of a bench, axis, option or metric.
func ValidName(s string) bool { return validName.MatchString(s) }

// ValidEnvName reports whether s may be the name of a swept environment variable.
func ValidEnvName(s string) bool { return validEnvName.MatchString(s) }
