#!/usr/bin/env bash
# Repeats two studies of `kernbench tune`. The first finds the garbage-collection setting,
# number of threads and chunk size with which a Go program is fastest (examples/tuning).
# The second finds the transport, eager limit, algorithm and component with which Open
# MPI's all-reduce is fastest (peers/openmpi-tune.yaml). Prints both answers, and the load
# and the share of stolen CPU time before and after each study. Takes 6 minutes and needs
# an idle machine.
#
#   scripts/bench-tune.sh [bin/kernbench]
#
# GO_BUDGET, MPI_BUDGET   time limit of each study (150s, 200s)
# OUT      folder of the runs (out/bench-tune); the answers are in OUT/answers.md
#
# Needs a built kernbench, Go, and Open MPI with mpicc (Debian: libopenmpi-dev, openmpi-bin).
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
cd "$(dirname "$0")/.."
out=${OUT:-out/bench-tune}
mkdir -p "$out" peers/build
go build -o examples/tuning/ ./examples/tuning
"$(command -v mpicc.openmpi || echo mpicc)" -O3 peers/allreduce_mpi.c -o peers/build/allreduce_openmpi

stolen() { awk '/^cpu /{print $9, $2+$3+$4+$5+$6+$7+$8+$9}' /proc/stat; } # ticks, of how many

study() { # NAME and BUDGET, then the arguments of tune
	name=$1 budget=$2
	shift 2
	echo "## $name"
	echo
	echo "    kernbench tune $*"
	echo
	echo "Load average before: $(cut -d' ' -f1 /proc/loadavg)."
	echo
	before=$(stolen)
	"$bin" tune -q "$@" --budget "$budget" --out "$out/$name" | sed 's/^/    /'
	echo
	echo "Load average after: $(cut -d' ' -f1 /proc/loadavg)." \
		"$(echo "$before $(stolen)" | awk '{printf "The hypervisor took %.0f %% of the time of the cores.", 100*($3-$1)/($4-$2)}')"
	echo
}

{
	echo "# Two studies on $(nproc) cores ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)), $(date -u '+%-d %B %Y')"
	echo
	study go-program "${GO_BUDGET:-150s}" -f examples/tuning/sweep.yaml --minimise time_us
	study open-mpi "${MPI_BUDGET:-200s}" -f peers/openmpi-tune.yaml --minimise time_us --over size
} | tee "$out/answers.md"
