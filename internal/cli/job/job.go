// Package job finds and joins the job of ranks that this process belongs to, and
// the launcher that starts ranks where it belongs to none. The waiting and
// talking is package rankhost's; this package reads the environment and the flags.
package job

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/rendezvous"
)

// EndpointVar says where the ranks of a job on several hosts meet, where its
// launcher does not.
const EndpointVar = "KERNBENCH_RDZV"

// SecretVar holds the secret of the rendezvous where no file does. Its name
// keeps the value out of every record, and ranks do not get it.
const SecretVar = "KERNBENCH_RDZV_SECRET"

// RankSecretVar holds what the ranks of a job on several hosts get in its place:
// a secret of this one job, by which they know each other.
const RankSecretVar = "KERNBENCH_DIST_SECRET"

// Process is what this process knows of itself: how it was called, and what its
// flags say about the job.
type Process struct {
	Name       string
	Args       []string
	Environ    []string
	Endpoint   string // --rdzv-endpoint
	SecretFile string // --rdzv-secret-file
}

// Find gives the job that this process is a rank of and that `run` is to join
// by its --launcher, nil if it is to start its ranks itself.
func (p Process) Find(launcher string) (*jobenv.Job, error) {
	if launcher != "auto" && launcher != "join" {
		return nil, nil
	}
	job, err := jobenv.Detect(p.Environ)
	if job != nil && job.Size == 1 && job.Launcher == jobenv.Srun && launcher != "join" {
		return nil, err // an interactive shell of Slurm's has the same variables
	}
	if err == nil && job == nil && launcher == "join" {
		err = errors.New("--launcher join: this process is not a rank that torchrun, mpirun, mpiexec, srun or " + p.Name +
			" launch has started")
	}
	return job, err
}

// Follower tells whether this is a `run` as a rank of a job whose rank 0 speaks
// for it.
func Follower(args, environ []string) bool {
	if len(args) == 0 || args[0] != "run" {
		return false
	}
	job, err := jobenv.Detect(environ)
	return err == nil && job != nil && job.Rank > 0
}

// Secret reads the secret of the rendezvous. It is never a flag: everybody on
// the host can read command lines.
func (p Process) Secret() ([]byte, error) {
	where := SecretVar
	secret := []byte(jobenv.Variable(p.Environ, SecretVar))
	switch {
	case p.SecretFile != "":
		where = p.SecretFile
		info, err := os.Stat(p.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("reading the secret: %w", err)
		}
		if info.Mode()&0o077 != 0 {
			return nil, fmt.Errorf("reading the secret: other users can read or change %s: chmod 600 it, and make a new one",
				p.SecretFile)
		}
		if secret, err = os.ReadFile(p.SecretFile); err != nil {
			return nil, fmt.Errorf("reading the secret: %w", err)
		}
	case len(secret) == 0:
		return nil, fmt.Errorf("several nodes need a shared secret: --rdzv-secret-file FILE, or the variable %s", SecretVar)
	}
	if secret = bytes.TrimSpace(secret); len(secret) < rendezvous.MinSecret {
		return nil, fmt.Errorf("the secret in %s has %d characters: it needs at least %d", where, len(secret),
			rendezvous.MinSecret)
	}
	return secret, nil
}
