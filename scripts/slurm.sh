#!/usr/bin/env bash
# Runs kernbench under a real Slurm: a controller and two virtual nodes on this
# machine, all in a temporary folder and gone at the end. Needs root and Debian's
# slurm-wlm and munge; the argument is a built kernbench.
set -euo pipefail

kernbench=$(realpath "${1:-bin/kernbench}")
for program in slurmctld slurmd srun munged; do
	command -v "$program" >/dev/null || { echo "$program is missing: apt-get install -y --no-install-recommends slurm-wlm munge" >&2; exit 1; }
done
[ "$(id -u)" -eq 0 ] || { echo "slurmd needs root" >&2; exit 1; }

dir=$(mktemp -d)
pids=()
finish() {
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
	wait || true
	rm -rf "$dir"
}
trap finish EXIT

# munged insists on folders that nobody else can write to.
chmod 755 "$dir"
head -c 1024 /dev/urandom >"$dir/key" && chmod 400 "$dir/key"
munged --foreground --force --key-file="$dir/key" --socket="$dir/munge" --pid-file="$dir/munged.pid" \
	--log-file="$dir/munged.log" --seed-file="$dir/seed" 2>"$dir/munged.err" &
pids+=($!)

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
NodeName=n[1-2] NodeHostname=$host NodeAddr=127.0.0.1 Port=[17001-17002] CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
CONF
for _ in $(seq 50); do [ -S "$dir/munge" ] && break; sleep 0.1; done
slurmctld -D >"$dir/slurmctld.log" 2>&1 &
pids+=($!)
for node in n1 n2; do
	slurmd -D -N "$node" >"$dir/$node.log" 2>&1 &
	pids+=($!)
done
for _ in $(seq 300); do [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ] && break; sleep 0.1; done

fail() { echo "FAIL: $1" >&2; tail -n 5 "$dir"/*.log >&2; exit 1; }

# A sweep over an environment variable, each launch through srun on both nodes.
rows=$("$kernbench" run -q --bench memory --size 16K --op copy --ranks 2 --env SWEPT=1,2 \
	--launcher 'srun --nodes=2' --out "$dir/run" --format csv | grep -c ',ok,') || true
[ "$rows" = 2 ] || fail "a sweep through srun gave $rows good rows, want 2"

# One launcher per node; then a rank that fails.
head -c 32 /dev/urandom | base64 >"$dir/secret" && chmod 600 "$dir/secret"
launch() {
	srun --nodes=2 --ntasks=2 "$kernbench" launch --nnodes 2 --nproc-per-node 2 --rdzv-endpoint 127.0.0.1:29437 \
		--rdzv-id test --rdzv-secret-file "$dir/secret" -- sh -c "$1"
}
got=$(launch 'echo $RANK/$WORLD_SIZE' | sort | tr '\n' ' ')
[ "$got" = "[rank0]: 0/4 [rank1]: 1/4 [rank2]: 2/4 [rank3]: 3/4 " ] || fail "the ranks said $got"
code=0
launch '[ $RANK = 3 ] && exit 5; sleep 100' >"$dir/out" 2>&1 || code=$?
[ "$code" = 5 ] && grep -q 'rank 3 (node 1, .*) ended with exit code 5' "$dir/out" || fail "exit code $code: $(cat "$dir/out")"

# A rank of srun's own job is recognised.
srun --nodes=2 --ntasks=2 "$kernbench" run --bench memory --out "$dir/none" >"$dir/out" 2>&1 || true
grep -q 'this is rank 1 of 2 that srun has started' "$dir/out" || fail "not recognised: $(cat "$dir/out")"
echo "slurm $(srun --version): good"
