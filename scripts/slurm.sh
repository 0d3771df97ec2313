#!/usr/bin/env bash
# Runs kernbench under a real Slurm: a controller and two virtual nodes on this machine. All
# files are in a temporary folder, which is removed at the end. Needs root and Debian's
# slurm-wlm and munge, which it installs if they are missing.
#
#	slurm.sh KERNBENCH        tests a built kernbench
#	slurm.sh -- COMMAND...    runs a command that can use this Slurm
set -euo pipefail

command=()
if [ "${1-}" = -- ]; then
	command=("${@:2}")
else
	kernbench=$(realpath "${1:-bin/kernbench}")
fi
[ "$(id -u)" -eq 0 ] || { echo "slurmd needs root" >&2; exit 1; }
missing=()
command -v slurmctld >/dev/null && command -v slurmd >/dev/null && command -v srun >/dev/null || missing+=(slurm-wlm)
command -v munged >/dev/null || missing+=(munge)
if [ ${#missing[@]} -gt 0 ]; then
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# Use a separate mount namespace, in which /etc/hosts resolves the names of the virtual nodes.
if [ -z "${KERNBENCH_SLURM_INSIDE-}" ]; then
	KERNBENCH_SLURM_INSIDE=1 exec unshare --mount --propagation private "$0" "$@"
fi
unset KERNBENCH_SLURM_INSIDE
[ ${#command[@]} -gt 0 ] || cd "$(dirname "$0")/.."

dir=$(mktemp -d)
pids=()
finish() {
	scancel --state=RUNNING 2>/dev/null || true
	pids+=($(jobs -p))
	kill "${pids[@]}" 2>/dev/null || true
	# slurmd waits for its steps. If one of them does not end, slurmd is killed, so that the tests end.
	for _ in $(seq 150); do kill -0 "${pids[@]}" 2>/dev/null || break; sleep 0.1; done
	kill -9 "${pids[@]}" 2>/dev/null || true
	wait || true
	rm -rf "$dir"
}
trap finish EXIT

# munged requires folders that nobody else can write to.
chmod 755 "$dir"
head -c 1024 /dev/urandom >"$dir/key" && chmod 400 "$dir/key"
munged --foreground --force --key-file="$dir/key" --socket="$dir/munge" --pid-file="$dir/munged.pid" \
	--log-file="$dir/munged.log" --seed-file="$dir/seed" 2>"$dir/munged.err" &
pids+=($!)

{ cat /etc/hosts; echo "127.0.0.1 n1"; echo "127.0.0.1 n2"; } >"$dir/hosts"
mount --bind "$dir/hosts" /etc/hosts

host=$(hostname -s)
export SLURM_CONF=$dir/slurm.conf
cat >"$SLURM_CONF" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge
StateSaveLocation=$dir
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
KillWait=3
NodeName=n[1-2] NodeHostname=$host NodeAddr=127.0.0.1 Port=[17001-17002] CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=n[1-2] Default=YES MaxTime=INFINITE OverSubscribe=FORCE:4 State=UP
CONF
for _ in $(seq 100); do [ -S "$dir/munge" ] && break; sleep 0.1; done
slurmctld -D >"$dir/slurmctld.log" 2>&1 &
pids+=($!)
for node in n1 n2; do
	slurmd -D -N "$node" >"$dir/$node.log" 2>&1 &
	pids+=($!)
done
for _ in $(seq 600); do [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ] && break; sleep 0.1; done

if [ ${#command[@]} -gt 0 ]; then
	"${command[@]}"
	exit
fi

fail() { echo "FAIL: $1" >&2; tail -n 5 "$dir"/*.log >&2; exit 1; }
# expect COUNT PATTERN WHAT checks that COUNT lines of the output match the pattern.
expect() {
	local found
	found=$(grep -cE "$2" "$dir/out") || true
	[ "$found" = "$1" ] || fail "$3: $found lines match '$2', want $1: $(cat "$dir/out")"
}
quick="--bench memory --size 16K --op copy --trials 1 --remeasure 0 --format csv"

# Inject faults into srun jobs while the tests below run. `make faults` injects more.
"${GO:-go}" test -c -vet=off -ldflags=-w -o "$dir/faults" ./internal/process/faults
"$dir/faults" -test.run='^TestSrun$' -test.v -test.parallel=4 -test.timeout=20m >"$dir/faults.out" 2>&1 &
faults=$!

# 1. A sweep over an environment variable. Each launch goes through srun on both nodes.
"$kernbench" run -q $quick --ranks 2 --env SWEPT=1,2 --launcher 'srun --nodes=2' --out "$dir/run" >"$dir/out" 2>&1 || fail "a sweep through srun: $(cat "$dir/out")"
expect 2 ',ok,' "a sweep through srun"

# 2. kernbench as the ranks of an srun job. Rank 0 records, and finds the other ranks through
# Slurm's variables. The second run is added to the same folder.
head -c 32 /dev/urandom | base64 >"$dir/secret" && chmod 600 "$dir/secret"
join() { srun --nodes=2 --ntasks=4 --kill-on-bad-exit=1 "$kernbench" run -q $quick --rdzv-secret-file "$dir/secret" --out "$dir/run" "$@" >"$dir/out" 2>&1; }
join --env SWEPT=1,2 --ranks 2,4 || fail "joined under srun: $(cat "$dir/out")"
expect 1 '^bench,' "joined under srun"
expect 2 'memory,,4,cpu,.*,ok,' "joined under srun"
expect 2 'memory,,2,cpu,.*,skipped,.*this job has 4 ranks' "joined under srun"
"$kernbench" runs "$dir/run" >"$dir/out"
expect 2 ' complete$' "two runs in one folder"

# Without a secret, ranks on several nodes say what to set, once per node.
srun --nodes=2 --ntasks=2 "$kernbench" run -q $quick --out "$dir/none" >"$dir/out" 2>&1 && fail "ranks joined without a secret"
expect 2 'several nodes need a shared secret: --rdzv-secret-file FILE, or the variable KERNBENCH_RDZV_SECRET' "no secret"

# The same two ways for a bench in Python: srun starts its ranks, or its ranks join the job.
cat >"$dir/ranks.py" <<'PYTHON'
import os
from kernbench import bench

@bench.register
@bench.axis("num_ranks", [2])
@bench.env("SWEPT", ["1", "2"])
@bench.sampling(max_samples=100)
def ranks(state, ctx):
    ctx.barrier()
    state.counter("node" + os.environ.get("SLURM_NODEID", "0") + "_" + os.environ["SWEPT"], ctx.get_num_ranks(), "ranks")
    state.exec(lambda: None)
PYTHON
python="-f $dir/ranks.py --trials 1 --remeasure 0 --format jsonl"
"$kernbench" run -q $python --launcher 'srun --nodes=2' --out "$dir/python" >"$dir/out" 2>&1 || fail "Python through srun: $(cat "$dir/out")"
expect 2 '"status":"ok".*"node0_[12]":2' "Python through srun"
srun --nodes=2 --ntasks=2 --kill-on-bad-exit=1 "$kernbench" run -q $python --rdzv-secret-file "$dir/secret" --out "$dir/python" >"$dir/out" 2>&1 ||
	fail "Python joined under srun: $(cat "$dir/out")"
expect 2 '"status":"ok".*"node0_[12]":2' "Python joined under srun"

# 3. A killed worker gives a failed row that names it. Then the process of a rank is killed,
# which breaks the job, and --resume completes it.
victim() { # victim PATTERN VARIABLE: processes of this cluster with such a command and variable
	for pid in $(pgrep -f "$1" || true); do
		if grep -qzxF "$2" "/proc/$pid/environ" 2>/dev/null && grep -qzxF "SLURM_CONF=$SLURM_CONF" "/proc/$pid/environ" 2>/dev/null; then echo "$pid"; fi
	done
}
slow="--bench memory --size 8M --op copy --only num_ranks==2 --trials 6 --remeasure 0 --format csv"
kill_during() { # kill_during PATTERN VARIABLE OUT: kills a process that matches while a joined sweep runs
	srun --nodes=2 --ntasks=2 --kill-on-bad-exit=1 "$kernbench" run -q $slow --rdzv-secret-file "$dir/secret" --out "$dir/$3" >"$dir/out" 2>&1 &
	local job=$! found=()
	for _ in $(seq 1200); do
		found=($(victim "$1" "$2"))
		[ -n "${found-}" ] && grep -q '"type":"begin"' "$dir/$3/journal.jsonl" 2>/dev/null && break
		sleep 0.05
	done
	[ -n "${found-}" ] || fail "nothing to kill was found: $(cat "$dir/out")"
	kill -9 "${found[0]}"
	if wait "$job"; then fail "a job with a killed rank ended well"; fi
	"$kernbench" show "$dir/$3" --format csv >"$dir/out"
}
kill_during '^/proc/self/exe' RANK=1 worker
expect 1 ',failed,.*,1,.*the worker ended with signal 9' "a killed worker"
expect 5 ',ok,' "the rest of its sweep"
kill_during "$kernbench run" SLURM_PROCID=1 rank
expect 1 ',failed,.*,1,.*the process of rank 1 .* was lost' "a killed rank"
"$kernbench" run -q $slow --ranks 2 --out "$dir/rank" --resume >"$dir/out" 2>&1 || fail "resuming: $(cat "$dir/out")"
expect 6 ',ok,' "resuming"

# 4. One launcher per node. Then one with a rank that fails.
launch() {
	srun --nodes=2 --ntasks=2 "$kernbench" launch --nnodes 2 --nproc-per-node 2 --rdzv-endpoint 127.0.0.1:29437 \
		--rdzv-id test --rdzv-secret-file "$dir/secret" -- sh -c "$1"
}
got=$(launch 'echo $RANK/$WORLD_SIZE' | sort | tr '\n' ' ')
[ "$got" = "0/4 1/4 2/4 3/4 " ] || fail "the ranks said $got"
code=0
launch '[ $RANK = 3 ] && exit 5; sleep 100' >"$dir/out" 2>&1 || code=$?
[ "$code" = 5 ] && grep -q 'rank 3 (node 1, .*) ended with exit code 5' "$dir/out" || fail "exit code $code: $(cat "$dir/out")"

# 5. The batch script of docs/clusters.md, unchanged.
sed -n '/^    #!\/bin\/bash$/,/^$/s/^    //p' docs/clusters.md |
	sed "s#kernbench launch#$kernbench launch#; s#~/.kernbench-secret#$dir/secret#; s#python3 train.py#sh -c 'echo \$RANK of \$WORLD_SIZE'#" >"$dir/job.sh"
job=$(sbatch --parsable --nodes=2 --ntasks-per-node=1 --output="$dir/out" "$dir/job.sh") # --wait looks every ten seconds
for _ in $(seq 600); do [ -z "$(squeue --noheader --jobs="$job" 2>/dev/null)" ] && break; sleep 0.1; done
expect 16 '^[0-9]+ of 16$' "the batch script"

wait "$faults" && grep -q '^--- PASS: TestSrun ' "$dir/faults.out" || fail "faults: $(cat "$dir/faults.out")" # not skipped

# 6. A run whose terminal is closed, or that is killed, leaves no job and no step, even if its
# ranks ignore SIGTERM. If the run is inside a job of the user, that job stays.
cat >"$dir/deaf.yaml" <<YAML
name: deaf
command: [sh, -c, "trap '' TERM INT HUP; echo begun >>$dir/begun; sleep 300; sleep 300"]
ranks: [2]
metrics: {x: {regex: "x=(.*)"}}
YAML
end_by() { # end_by SIGNAL WHERE...: the jobs that are left, once a run through srun was sent it
	local signal=$1 left
	shift
	rm -f "$dir/begun"
	"$@" "$kernbench" run -q -f "$dir/deaf.yaml" --launcher 'srun --nodes=2' --out "$dir/deaf" >"$dir/out" 2>&1 &
	for _ in $(seq 600); do [ -s "$dir/begun" ] && break; sleep 0.05; done
	[ -s "$dir/begun" ] || fail "the ranks did not begin: $(cat "$dir/out")"
	for pid in $(victim "^$kernbench run" "SLURM_CONF=$SLURM_CONF"); do kill "-$signal" "$pid"; done
	for _ in $(seq 600); do # a minute
		left=$({ squeue --noheader --steps --format='%i %j'; squeue --noheader --format='%i %j'; } | grep -v the-users-own || true)
		[ -z "$left" ] && return
		sleep 0.1
	done
	fail "SIG$signal: left of the job: $left"
}
for signal in KILL HUP TERM; do end_by "$signal" env; done
end_by KILL salloc --quiet --nodes=2 --ntasks=2 --job-name=the-users-own

# 7. A program whose step is cancelled gives a failed row that quotes Slurm and names no rank.
sed 's/trap[^;]*; //' "$dir/deaf.yaml" >"$dir/cancelled.yaml"
rm -f "$dir/begun"
"$kernbench" run -q -f "$dir/cancelled.yaml" --launcher 'srun --nodes=2' --out "$dir/cancelled" >"$dir/out" 2>&1 &
job=$!
for _ in $(seq 600); do [ "$(cat "$dir/begun" 2>/dev/null | wc -l)" = 2 ] && break; sleep 0.05; done
scancel "$(squeue --noheader --steps --format=%i | grep -v extern | head -n 1)"
if wait "$job"; then fail "a cancelled step ended well"; fi
"$kernbench" show "$dir/cancelled" --format csv >"$dir/out"
expect 1 ',failed,.*srun ended with .*: (STEP .* CANCELLED AT |Job step aborted)' "a cancelled step"

for _ in $(seq 200); do # what was killed lives on for a moment
	left=$(find /proc -maxdepth 2 -name exe -lname "$kernbench" 2>/dev/null | tr '\n' ' ') || true
	[ -z "$left" ] && break
	sleep 0.1
done
[ -z "$left" ] || fail "left behind: $left"
echo "slurm $(srun --version): good, in $SECONDS s"
