package hostinfo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestRecordedEnv(t *testing.T) {
	environ := []string{
		"NCCL_ALGO=Ring", "NCCL_EMPTY=", "CUDA_VISIBLE_DEVICES=0,1", "OMPI_MCA_btl=self,vader", "OMP_NUM_THREADS=4",
		"GOMAXPROCS=2", "LD_PRELOAD=libfast.so", "KERNBENCH_SEED=1", "MPIR_CVAR_CH4=x=y",
		"GOMAXPROCSX=3", "HOME=/home/me", "PATH=/bin", "XNCCL_ALGO=1", "nccl_algo=1",
		"NCCL_AUTH_TOKEN=hush", "KERNBENCH_TOKEN=hush", "UCX_PASSWORD=hush", "OMPI_APIKEY=hush", "FI_KEY2=hush",
		"MKL_mypasswd=hush",
		"NCCL_PROXY=http://me:hush@host/", "MY_TUNING=7", "MY_SECRET=hush", "MY_URL=ssh://me:hush@host",
		"TOKENIZERS_PARALLELISM=false",
		"NCCL_ALGO=Tree", "=odd", "NOVALUE",
	}
	swept := []string{"MY_TUNING", "MY_SECRET", "MY_URL", "TOKENIZERS_PARALLELISM", "NOT_SET", "HOME"}
	want := map[string]string{
		"NCCL_ALGO":  "Tree", // of two settings the last counts, as for a started program
		"NCCL_EMPTY": "", "CUDA_VISIBLE_DEVICES": "0,1", "OMPI_MCA_btl": "self,vader", "OMP_NUM_THREADS": "4",
		"GOMAXPROCS": "2", "LD_PRELOAD": "libfast.so", "KERNBENCH_SEED": "1", "MPIR_CVAR_CH4": "x=y",
		"MY_TUNING": "7", "MY_SECRET": Redacted, "MY_URL": Redacted, "TOKENIZERS_PARALLELISM": "false", "HOME": "/home/me",
	}
	if diff := cmp.Diff(want, RecordedEnv(environ, swept)); diff != "" {
		t.Errorf("want (-) and got (+):\n%s", diff)
	}
}

func TestLooksSecret(t *testing.T) {
	for _, name := range []string{
		"TOKEN", "GITHUB_TOKEN", "NCCL_TOKENS", "aws_secret_access_key", "DB_PASSWORD", "PASSWD", "SSH_KEY", "KEY",
		"API_KEYS", "APIKEY",
		"NCCL_AUTH", "AUTH_HEADER", "GOOGLE_APPLICATION_CREDENTIALS", "DB_PASS", "X-AUTH-X", "SESSION_COOKIE", "KEY_1",
		"authtoken", "MYSQL_PWD",
	} {
		if !looksSecret(name) {
			t.Errorf("%s passes for harmless", name)
		}
	}
	for _, name := range []string{
		"NCCL_ALGO", "NCCL_BYPASS", "GIT_AUTHOR", "KEYBOARD", "TOKENIZERS_PARALLELISM", "OMP_NUM_THREADS", "PATH",
		"NCCL_COMPASS_DIR",
	} {
		if looksSecret(name) {
			t.Errorf("%s passes for a secret", name)
		}
	}
}

// TestNoSecretIsRecorded checks secret words in any case and among other words.
func TestNoSecretIsRecorded(t *testing.T) {
	const hush = "hush-hush-value"
	rapid.Check(t, func(t *rapid.T) {
		var environ, swept []string
		for i := range rapid.IntRange(1, 8).Draw(t, "variables") {
			word := rapid.SampledFrom([]string{
				"TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY", "CREDENTIAL", "CREDENTIALS", "AUTH", "token", "Secret", "auth",
				"key",
			}).Draw(t, "word")
			prefix := rapid.SampledFrom(append([]string{"MY_", ""}, recordedPrefixes...)).Draw(t, "prefix")
			before := rapid.StringMatching(`([A-Za-z0-9]{1,6}_)?`).Draw(t, "before")
			after := rapid.StringMatching(`([_0-9.-][A-Za-z0-9]{0,6})?`).Draw(t, "after")
			name, value := prefix+before+word+after, fmt.Sprintf("%s-%d", hush, i)
			if rapid.Bool().Draw(t, "in the value instead") {
				name, value = fmt.Sprintf("%sURL%d", prefix, i), "https://me:"+value+"@example.org/path"
			}
			environ = append(environ, name+"="+value)
			if rapid.Bool().Draw(t, "swept") {
				swept = append(swept, name)
			}
		}
		kept := RecordedEnv(environ, swept)
		for name, value := range kept {
			if strings.Contains(name+value, hush) {
				t.Fatalf("%s=%s recorded from %q sweeping %q", name, value, environ, swept)
			}
		}
		for _, name := range swept {
			if kept[name] != Redacted {
				t.Fatalf("swept %s recorded as %q", name, kept[name])
			}
		}
	})
}
