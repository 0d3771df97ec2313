#!/usr/bin/env bash
# Makes everything in docs/results/h200, on a machine with a GPU, its driver and the binary:
#
#   scripts/gpu-results.sh bin/kernbench OUT [SECONDS]
#
# If it is started again, it continues where it was interrupted. Each part has a time limit,
# and all parts together have SECONDS (720); the most important parts come first. OUT.tar.gz
# contains everything, except raw samples if these would make it larger than 20 MB. PARTS
# names the parts to run, RANKS the rank counts (2,4,8), and LARGE, MIDDLE and SMALL the
# sizes.
#
# Sampling takes only milliseconds per point. Most of the time goes into moving and checking
# whole vectors: each timed point gets new inputs and has every element checked about a
# dozen times, and with 8 ranks of 512 MiB each time moves 9 GB between host and GPU. So few
# algorithms run with the large sizes, and no point is measured again because the host was
# busy.
set -uo pipefail
kb=$(realpath "$1")
out=$2
budget=${3:-720}
began=$SECONDS
ranks=${RANKS:-2,4,8}
large=${LARGE:-256M,512M} middle=${MIDDLE:-64M} small=${SMALL:-4K,8K,64K,512K,4M,16M,64M}
mkdir -p "$out"
cd "$out" || exit 2

# part NAME LIMIT COMMAND... runs a command unless it has already finished. An interrupted run is continued.
part() {
	local name=$1 limit=$2 left=$((budget - (SECONDS - began) - 30)) start=$SECONDS rc=0
	shift 2
	if [[ -n ${PARTS:-} && " $PARTS " != *" $name "* ]] || [[ -e $name.done ]]; then return; fi
	((left < limit)) && limit=$left
	if ((limit < 5)); then
		echo "$name: no time left" | tee -a summary.txt
		return
	fi
	[[ -e $name/journal.jsonl ]] && set -- "$@" --resume
	timeout -s INT -k 20 "$limit" "$@" >"$name.log" 2>&1 || rc=$?
	case $rc in
	124 | 130 | 137) echo "$name: cut off after $((SECONDS - start)) s" ;;
	*) echo "$name: exit status $rc after $((SECONDS - start)) s" && echo "$rc" >"$name.done" ;;
	esac | tee -a summary.txt
}
run() { # NAME LIMIT FLAGS...: a run of a bench in the folder NAME
	part "$1" "$2" "$kb" run --out "$1" --quiet --remeasure 0 "${@:3}"
}
eval_() { run "$1" "$2" --bench allreduce-eval --backend cuda --ranks "$ranks" "${@:3}"; }
kernels() { run "$1" "$2" --bench gpu-allreduce --ranks "$ranks" --seconds 0.05 "${@:3}"; }

nvidia-smi >nvidia-smi.txt 2>&1
part doctor 30 "$kb" doctor
part selftest-cuda 90 "$kb" selftest --backend cuda
part selftest-nccl 60 "$kb" selftest --backend nccl
eval_ eval-cells 150 --only 'part != "performance"' --dtype bf16
kernels kernels-small 90 --size 8K --algorithm one-stage,two-stage-push,lamport --ranks_as processes,blocks --scope system,device --blocks auto,1
kernels kernels-large 90 --size "$middle,$large" --algorithm two-stage-push --ranks_as processes,blocks --scope device --only 'size <= 256M || num_ranks == 2'
eval_ eval-small 110 --only 'part == "performance"' --dtype bf16 --size "$small"
eval_ eval-large 150 --only 'part == "performance" && (size < 512M || num_ranks < 8 || algorithm == "auto")' --dtype bf16 --size "$large" --algorithm auto,two-stage-push
eval_ eval-wide 100 --only 'part == "correctness"' --dtype bf16 --sizes wide --inplace false --epilogue false --algorithm auto,one-stage,quickreduce
kernels kernels-blocks 40 --size "$middle" --algorithm two-stage-push,one-stage --blocks 8,16,24,33 --scope device
kernels kernels-algorithms 40 --size "8K,$middle" --algorithm two-stage,naive,auto --scope device

for run in */journal.jsonl; do
	"$kb" report "$(dirname "$run")" >>report.log 2>&1
done
if [[ -e eval-small/journal.jsonl ]]; then
	part llm-impact 30 "$kb" run --bench llm-impact --curve "$PWD/eval-small" --tp 2,4,8 --against - --out llm-impact --quiet
fi
pack() { tar -C .. -czf "../$(basename "$PWD").tar.gz" "$@" "$(basename "$PWD")"; }
pack
if (($(stat -c %s "../$(basename "$PWD").tar.gz") > 20000000)); then pack --exclude=samples; fi
ls -l "../$(basename "$PWD").tar.gz"
