#!/usr/bin/env bash
# Two real studies of `kernbench tune`: which garbage collection, threads and chunk make a Go
# program fast (examples/tuning), and which transport, algorithm, eager limit and segment size
# Open MPI's all-reduce (peers/openmpi-tune.yaml). Prints both answers, the load before and
# after each, and leaves them with the runs. For an idle machine: 6 minutes.
#
#   scripts/bench-tune.sh [bin/kernbench]
#
# BUDGET   most time for each study (165s)
# OUT      where the runs are kept (out/bench-tune); answers are in OUT/answers.md
#
# It needs a built kernbench, Go, and Open MPI with mpicc (Debian: libopenmpi-dev, openmpi-bin).
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
cd "$(dirname "$0")/.."
budget=${BUDGET:-165s}
out=${OUT:-out/bench-tune}
mkdir -p "$out" peers/build
go build -o examples/tuning/ ./examples/tuning
"$(command -v mpicc.openmpi || echo mpicc)" -O3 peers/allreduce_mpi.c -o peers/build/allreduce_openmpi

study() { # NAME, then the arguments of tune
	name=$1
	shift
	echo "## $name"
	echo
	echo "    kernbench tune $*"
	echo
	echo "Load average before: $(cut -d' ' -f1 /proc/loadavg)."
	echo
	"$bin" tune -q "$@" --budget "$budget" --out "$out/$name" | sed 's/^/    /'
	echo
	echo "Load average after: $(cut -d' ' -f1 /proc/loadavg)."
	echo
}

{
	echo "# Two studies on $(nproc) cores ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)), $(date -u '+%-d %B %Y')"
	echo
	study go-program -f examples/tuning/sweep.yaml --minimise time_us
	study open-mpi -f peers/openmpi-tune.yaml --minimise time_us --over size
} | tee "$out/answers.md"
