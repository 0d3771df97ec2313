#!/usr/bin/env bash
# Compiles the CUDA sources of the GPU kernels to PTX. Needs nvcc (CUDA 12.4 or later), which
# is not needed to run the kernels. A source whose name ends in 90a uses instructions that
# only Hopper GPUs have.
set -euo pipefail
cd "$(dirname "$0")/../internal/kernel"
export PATH=$PATH:/usr/local/cuda/bin LC_ALL=C
for source in ${SOURCES:-gpu/*.cu gpugemm/*.cu gpufused/*.cu gpusolve/*.cu gpustream/*.cu}; do
	folder=$(dirname "$source")
	out=${1:+$1/}$folder/ptx
	# Headers of other folders are included as "../FOLDER/NAME.cuh".
	neighbours=$(sed -n 's|^#include "\.\./\([a-z]*\)/.*|\1/*.cuh|p' "$folder"/*.cu "$folder"/*.cuh | sort -u)
	name=$(basename "$source" .cu)
	mkdir -p "$out"
	made=$(mktemp)
	# Sources marked "Needs compute_90" use instructions that older GPUs lack.
	target=80 version=8.0 archs="sm_80 sm_90"
	if grep -q 'Needs compute_90' "$source"; then target=90 version=8.2 archs=sm_90; fi
	if [[ $name == *90a ]]; then target=90a archs=sm_90a; fi
	# Do not contract a product and a sum into one operation: every other backend rounds the product first.
	nvcc -std=c++17 -O3 -fmad=false -arch=compute_$target -ptx "$source" -o "$made"
	{
		echo "// source: sha256 $(cat $neighbours "$folder"/*.cuh "$source" | sha256sum | cut -d' ' -f1)"
		# Remove hints on loads that only newer compilers write, and lower the version, so that
		# drivers from 525 on accept the PTX. ptxas checks the result below.
		grep -v -e '^//' -e '\.pragma "used_bytes_mask' -e '^[[:space:]]*$' "$made" | sed "s/^\.version .*/.version $version/"
	} >"$out/$name.ptx"
	for arch in $archs; do
		ptxas -arch=$arch -v "$out/$name.ptx" -o /dev/null 2>"$made" || { cat "$made" >&2; exit 1; }
		# ptxas warns of a "Performance Loss" when it makes matrix instructions wait for each other. The
		# result is right, but the kernel runs at a third of its speed.
		if grep 'Performance Loss' "$made" >&2; then exit 1; fi
		spills=$(grep -c 'bytes spill' "$made") || true
		spilled=$(grep 'bytes spill' "$made" | grep -vc ' 0 bytes spill stores') || true
		echo "$name $arch: $spills kernels, $spilled spill registers, $(wc -c <"$out/$name.ptx") bytes of PTX"
	done
	rm -f "$made"
done
