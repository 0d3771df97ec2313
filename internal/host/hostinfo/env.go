package hostinfo

import (
	"regexp"
	"slices"
	"strings"
)

// Redacted replaces a value that must not be recorded.
const Redacted = "(redacted)"

// recordedPrefixes are the families of variables that tune the libraries under
// measurement; recordedNames are single ones that change how a program runs,
// the last two by changing which libraries it gets.
var (
	recordedPrefixes = []string{
		"NCCL_", "RCCL_", "TORCH_NCCL_", "CUDA_", "HSA_", "HIP_", "ROCR_",
		"UCX_", "FI_", "OMPI_", "PMIX_MCA_", "MPICH_", "MPIR_CVAR_",
		"OMP_", "KMP_", "OPENBLAS_", "MKL_", "KERNBENCH_", "MILESTONE_",
	}
	recordedNames = []string{
		"GOMAXPROCS", "GOGC", "GODEBUG", "GOMEMLIMIT", "GOAMD64", "GOEXPERIMENT", "LD_PRELOAD", "LD_LIBRARY_PATH",
	}
)

var (
	// secretParts make a name secret wherever they occur in it: nothing
	// harmless contains them.
	secretParts = []string{"SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "COOKIE"}

	// secretWord matches the others only as whole words, or at the end of one
	// for KEY and TOKEN (APIKEY), so that AUTHOR, BYPASS and TOKENIZER do not match.
	secretWord = regexp.MustCompile(`(^|[^A-Z])(AUTH|AUTHORIZATION|PASS|PWD|CERT|PRIVATE|BEARER|JWT|CREDS?)([^A-Z]|$)|(KEY|TOKEN)S?([^A-Z]|$)`)

	// secretValue matches a URL with a user in it, which usually has a password too.
	secretValue = regexp.MustCompile(`://[^/\s]*@`)
)

// RecordedEnv picks from an environment ("NAME=value" each) what belongs beside
// a result: the variables known to change one, and every swept one. Nothing that
// looks like a secret is kept; where a swept variable does, its value is
// replaced by Redacted, so that the row still shows it was set.
func RecordedEnv(environ []string, swept []string) map[string]string {
	kept := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		secret := looksSecret(name) || secretValue.MatchString(value)
		switch {
		case name == "":
		case slices.Contains(swept, name):
			if secret {
				value = Redacted
			}
			kept[name] = value
		case !secret && isRecorded(name):
			kept[name] = value
		}
	}
	return kept
}

func isRecorded(name string) bool {
	return slices.Contains(recordedNames, name) ||
		slices.ContainsFunc(recordedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func looksSecret(name string) bool {
	upper := strings.ToUpper(name)
	return secretWord.MatchString(upper) ||
		slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(upper, part) })
}
