package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxCPUs is the size of the kernel's cpu_set_t.
const maxCPUs = 1024

// encode checks the processes, all of them, and makes them ready to be sent. A file that several share is sent once.
func (a *Agent) encode(procs []Proc) ([]wireProc, []*os.File, error) {
	if len(procs) == 0 {
		return nil, nil, errors.New("there is no process to start")
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, nil, err
	}
	absolute := func(path string) []byte {
		if path != "" && !filepath.IsAbs(path) {
			path = filepath.Join(here, path)
		}
		return []byte(path)
	}
	var faults []error
	var files []*os.File
	var out []wireProc
	index := make(map[*os.File]int)
	taken := make(map[int]bool)
	for _, p := range procs {
		for _, fault := range p.faults() {
			faults = append(faults, fmt.Errorf("rank %d: %w", p.Rank, fault))
		}
		if taken[p.Rank] {
			faults = append(faults, fmt.Errorf("rank %d: there are two of this number", p.Rank))
		}
		taken[p.Rank] = true
		w := wireProc{
			Rank: p.Rank, Argv: toBytes(p.Argv), Env: toBytes(a.tagged(p.Env)), Dir: absolute(p.Dir),
			Stdout: absolute(p.Stdout), Stderr: absolute(p.Stderr), CPUs: p.CPUs,
		}
		if p.Dir == "" {
			w.Dir = []byte(here)
		}
		for _, f := range p.ExtraFiles {
			if _, ok := index[f]; !ok {
				index[f] = len(files)
				files = append(files, f)
			}
			w.Files = append(w.Files, index[f])
		}
		out = append(out, w)
	}
	return out, files, errors.Join(faults...)
}

// tagged is env with the mark by which a lost agent's processes are found.
func (a *Agent) tagged(env []string) []string {
	marked := slices.DeleteFunc(slices.Clone(env), func(entry string) bool { return strings.HasPrefix(entry, TagVar+"=") })
	return append(marked, TagVar+"="+a.tag)
}

// faults returns what makes a process impossible to start, where the kernel would only say "invalid argument".
func (p Proc) faults() (faults []error) {
	if p.Rank < 0 {
		faults = append(faults, errors.New("the rank is negative"))
	}
	if len(p.Argv) == 0 || p.Argv[0] == "" {
		faults = append(faults, errors.New("there is no program in argv"))
	}
	for i, arg := range p.Argv {
		if strings.ContainsRune(arg, 0) {
			faults = append(faults, fmt.Errorf("argument %d holds a NUL byte", i))
		}
	}
	for _, entry := range p.Env {
		if name, _, ok := strings.Cut(entry, "="); !ok || name == "" || strings.ContainsRune(entry, 0) {
			faults = append(faults, fmt.Errorf("environment entry %q is not NAME=value without NUL bytes", entry))
		}
	}
	for _, cpu := range p.CPUs {
		if cpu < 0 || cpu >= maxCPUs {
			faults = append(faults, fmt.Errorf("CPU %d is not between 0 and %d", cpu, maxCPUs-1))
		}
	}
	if slices.Contains(p.ExtraFiles, nil) {
		faults = append(faults, errors.New("an extra file is nil"))
	}
	return faults
}
