package hostinfo

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Redacted replaces the value of a secret.
const Redacted = "(redacted)"

// recordedPrefixes match variables that tune communication and math libraries. recordedNames
// change how a program runs; the last two change which libraries it loads.
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
	// secretParts make a name secret wherever they occur: no harmless name contains them.
	secretParts = []string{"SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "COOKIE"}

	// secretWord matches other parts only as whole words, and KEY and TOKEN also at the end of a
	// word (APIKEY). AUTHOR, BYPASS and TOKENIZER do not match.
	secretWord = regexp.MustCompile(`(^|[^A-Z])(AUTH|AUTHORIZATION|PASS|PWD|CERT|PRIVATE|BEARER|JWT|CREDS?)([^A-Z]|$)|(KEY|TOKEN)S?([^A-Z]|$)`)

	// secretValue matches a URL with a user name, which usually contains a password too.
	secretValue = regexp.MustCompile(`://[^/\s]*@`)
)

// RecordedEnv returns the variables of an environment ("NAME=value" each) that are stored with a result:
// the ones known to affect results, and all swept ones. Variables that look like secrets are
// left out. If a swept variable looks like a secret, its value is replaced by Redacted, so
// that the row shows that it was set.
func RecordedEnv(environ []string, swept []string) map[string]string {
	recorded := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		secret := looksSecret(name) || secretValue.MatchString(value)
		switch {
		case name == "":
		case slices.Contains(swept, name):
			if secret {
				value = Redacted
			}
			recorded[name] = value
		case !secret && isRecorded(name):
			recorded[name] = value
		}
	}
	return recorded
}

// jobPrefixes match recorded variables that describe the job or this program's own wiring. They
// differ from start to start without changing what is measured.
var jobPrefixes = []string{"KERNBENCH_", "MILESTONE_", "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_", "OMPI_APP_", "OMPI_FIRST_",
	"OMPI_NUM_", "OMPI_FILE_", "OMPI_COMMAND", "OMPI_ARGV", "OMPI_VERSION", "OMPI_MCA_orte_", "OMPI_MCA_ess_",
	"OMPI_MCA_pmix", "OMPI_MCA_initial_wdir", "OMPI_MCA_shmem_RUNTIME", "OMPI_MCA_mpi_oversubscribe", "PMIX_MCA_"}

// IdentityEnv returns the recorded variables of an environment that are part of the identity
// of a result: results with different ones must not be mixed.
func IdentityEnv(environ []string) map[string]string {
	identity := RecordedEnv(environ, nil)
	maps.DeleteFunc(identity, func(name, _ string) bool {
		return slices.ContainsFunc(jobPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
	return identity
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
