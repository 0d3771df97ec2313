#!/usr/bin/env bash
# Renews the PTX of the GPU kernels from their CUDA sources. Needs nvcc (CUDA 12.4
# or later); machines that only run the kernels need none of this.
set -euo pipefail
cd "$(dirname "$0")/../internal/kernel/gpu"
export PATH=$PATH:/usr/local/cuda/bin
out=${1:-ptx}
mkdir -p "$out"
for source in *.cu; do
	name=${source%.cu}
	made=$(mktemp)
	nvcc -std=c++17 -O3 -arch=compute_80 -ptx "$source" -o "$made"
	{
		echo "// source: sha256 $(cat common.cuh "$source" | sha256sum | cut -d' ' -f1)"
		# The compiler's newer notes on loads are left out and the version lowered, so
		# that drivers from 525 on take it; ptxas below has the last word.
		grep -v -e '^//' -e '\.pragma "used_bytes_mask' -e '^[[:space:]]*$' "$made" | sed 's/^\.version .*/.version 8.0/'
	} >"$out/$name.ptx"
	for arch in sm_80 sm_90; do
		ptxas -arch=$arch -v "$out/$name.ptx" -o /dev/null 2>"$made" || { cat "$made" >&2; exit 1; }
		spills=$(grep -c 'bytes spill' "$made") || true
		spilled=$(grep 'bytes spill' "$made" | grep -vc ' 0 bytes spill stores') || true
		echo "$name $arch: $spills kernels, $spilled spill registers, $(wc -c <"$out/$name.ptx") bytes of PTX"
	done
	rm -f "$made"
done
