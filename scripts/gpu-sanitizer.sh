#!/usr/bin/env bash
# Runs compute-sanitizer over the GPU kernels, on a machine with a GPU and the CUDA toolkit:
#
#   make gpu-test && scripts/gpu-sanitizer.sh bin OUT
#
# The first folder holds the test binaries of `make gpu-test`. OUT gets one log for each tool and
# binary, and the last lines of each are printed. TOOLS names the tools (memcheck racecheck), LIMIT
# the seconds that one of them may take.
set -uo pipefail
bin=$(realpath "$1")
out=$2
mkdir -p "$out"
export PATH=$PATH:/usr/local/cuda/bin KERNBENCH_TEST_REAL_GPU=1
status=0
check() { # NAME TEST [SHORT]: runs the tests of a binary whose names match
	for tool in ${TOOLS:-memcheck racecheck}; do
		local log=$out/$tool-$1.txt
		timeout "${LIMIT:-120}" compute-sanitizer --tool "$tool" --error-exitcode 9 "$bin/$1.test" -test.short="${3:-false}" -test.run "$2" >"$log" 2>&1
		local rc=$?
		((rc == 0)) || status=1
		echo "$tool $1: exit status $rc, $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | tail -1)"
	done
}
check gpugemm 'TestConformance/builtin'
check device 'AgreesWithCPU' true # solves
check bandwidth 'OnRealGPU'
check gpu 'TestOnDevice' true # all-reduces whose ranks are blocks of one kernel
exit $status
