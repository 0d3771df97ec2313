package mpi

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/host/doctor"
)

// The version strings of real libraries are recognised.
func TestRecognise(t *testing.T) {
	for _, c := range []struct {
		said    string
		family  Family
		version string
		refusal string
	}{
		{"Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022", OpenMPI, "4.1.4", ""},
		{"Open MPI v5.0.3rc1, package: Open MPI someone", OpenMPI, "5.0.3rc1", ""},
		{"MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 12:34:45 CDT 2022\nMPICH ABI:\t14:2:2", MPICH, "4.0.2", ""},
		{"MPICH Version:      3.4.3", MPICH, "3.4.3", ""},
		{"Intel(R) MPI Library 2021.9 for Linux* OS\n", "", "",
			`it calls itself "Intel(R) MPI Library 2021.9 for Linux* OS"`},
		{"MVAPICH2 Version      :\t2.3.7", "", "", "MVAPICH2 Version"},
		{"MPI VERSION    : CRAY MPICH version 8.1.9.13 (ANL base 3.4a2)", "", "", "CRAY MPICH"},
		{"Open MPI v6.0.0, package: the future", "", "", "Open MPI 6.0.0: only versions 3 to 5 are supported"},
		{"MPICH Version:\t2.1", "", "", "MPICH 2.1: only versions 3 to 4"},
		{"", "", "", "neither Open MPI nor MPICH"},
	} {
		family, version, err := recognise(c.said)
		switch {
		case c.refusal == "" && (err != nil || family != c.family || version != c.version):
			t.Errorf("%q is %s %s, %v", c.said, family, version, err)
		case c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal)):
			t.Errorf("%q gave %v, want %q", c.said, err, c.refusal)
		}
	}
}

// The library belongs to the innermost launcher, even if that started only one rank.
func TestWanted(t *testing.T) {
	for _, c := range []struct {
		environ string
		want    []Family
	}{
		{"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_RANK=1", []Family{OpenMPI}},
		{"PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 PMI_FD=5", []Family{MPICH}},
		{"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", []Family{OpenMPI}},
		{"PMI_RANK=0 PMI_SIZE=1 PMI_FD=5", []Family{MPICH}},
		{"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=2 PMIX_RANK=1",
			[]Family{OpenMPI}},
		{"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=2 PMI_FD=4",
			[]Family{MPICH}},
		{"HOME=/root", []Family{OpenMPI, MPICH}},
	} {
		if got := candidateFamilies(strings.Fields(c.environ)); !slices.Equal(got, c.want) {
			t.Errorf("%s wants %v, want %v", c.environ, got, c.want)
		}
	}
}

// The doctor looks for the libraries that are opened here and finds the same versions. Every function
// and constant exists in each library.
func TestInstalled(t *testing.T) {
	findings := map[string]doctor.Finding{}
	for _, f := range doctor.Examine(doctor.Local(t.Context())) {
		findings[f.Area+" "+f.Name] = f
	}
	for _, l := range doctor.Libraries() {
		family := Family(l.Name)
		if family != OpenMPI && family != MPICH {
			continue
		}
		if !slices.Equal(l.Sonames, sonames[family]) {
			t.Errorf("the doctor looks for %s in %v, here it is %v", family, l.Sonames, sonames[family])
		}
		t.Setenv(EnvLibrary, sonames[family][0])
		lib, err := Open(nil)
		if err != nil {
			t.Error(err)
			continue
		}
		found := findings["libraries "+string(family)]
		if lib.Family != family || found.State != doctor.Yes || !strings.Contains(found.Detail, lib.Version) {
			t.Errorf("opened %v, the doctor says %+v", lib, found)
		}
	}
}

// A library that is not a known MPI is refused with its version string. A file that is not an MPI
// library, or does not exist, is refused by name.
func TestForeignLibrary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "libother.so")
	cmd := exec.Command("gcc", "-shared", "-fPIC", "-x", "c", "-o", file, "-")
	cmd.Stdin = strings.NewReader(`#include <string.h>
int MPI_Get_library_version(char *v, int *n) { strcpy(v, "Other MPI 7.1, by somebody"); *n = strlen(v); return 0; }`)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("a C compiler is needed (scripts/deps.sh): %v: %s", err, out)
	}
	for name, says := range map[string]string{
		file:           `neither Open MPI nor MPICH: it calls itself "Other MPI 7.1, by somebody"`,
		"libm.so.6":    "has no MPI_Get_library_version",
		"/no/such/lib": "/no/such/lib",
	} {
		t.Setenv(EnvLibrary, name)
		if _, err := Open(nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s gave %v, want %q", name, err, says)
		}
	}
}
