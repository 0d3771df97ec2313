package job

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/process/node"
)

// Any secret file is read or refused. One that is read is long enough, and white space around it does not matter: an
// editor adds a line end.
func FuzzSecret(f *testing.F) {
	f.Add([]byte("0123456789abcdef0123456789abcdef\n"))
	f.Add([]byte("short"))
	path := filepath.Join(f.TempDir(), "secret")
	p := Process{SecretFile: path}
	f.Fuzz(func(t *testing.T, text []byte) {
		must.Do(t, os.WriteFile(path, text, 0o600))
		secret, err := p.Secret()
		if long := len(bytes.TrimSpace(text)) >= node.MinSecret; (err == nil) != long || len(secret) > len(text) {
			t.Errorf("%q is read as %q, %v", text, secret, err)
		}
		if err != nil {
			return
		}
		must.Do(t, os.WriteFile(path, append([]byte(" \n"), append(secret, "\r\n"...)...), 0o600))
		if again := must.Get(p.Secret())(t); !bytes.Equal(again, secret) {
			t.Errorf("%q with a line end is read as %q", secret, again)
		}
	})
}
