#!/usr/bin/env bash
# gpu-timing.sh OUT [TRIALS] times twelve kernels by kernbench, triton.testing and iris.do_bench's method,
# and prints the tables of docs/results. It needs a GPU, torch, Triton, CuPy and kernbench on the PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?gpu-timing.sh OUT [TRIALS]}
kernbench run -f examples/python/gpu_timing.py --trials "${2:-5}" --out "$out" --quiet --remeasure 0 >"$out.log" || tail -5 "$out.log"
python3 examples/python/gpu_timing.py "$out"
