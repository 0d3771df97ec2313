#!/usr/bin/env bash
# screenshots.sh [bin/kernbench] makes the pictures of docs/guides: screenshots, in a headless Chromium, of pages and
# figures. Measured times come from the stored runs that the guides show (cmd/kernbench/testdata/outputs), simulated
# times from the commands of the guides. Every picture is therefore the same on every machine.
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
cd "$(dirname "$0")/.."
guides=$PWD/docs/guides
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$bin" "$work/kernbench"

# The files and the commands of a guide.
follow() {
	mkdir "$work/$1"
	awk '/^```sh$/ {on = 1; next} /^```$/ {on = 0} on' "$guides/$1.md" >"$work/$1.sh"
	(cd "$work/$1" && awk '/^```[a-z]+ [a-z.]+$/ {file = $2; next} /^```$/ {file = ""} file {print > file}' "$guides/$1.md" &&
		PATH=$work:$PATH bash -e "$work/$1.sh" >commands.log 2>&1)
}

photograph() { # GUIDE ADDRESS WIDTH,HEIGHT
	timeout 60 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" --virtual-time-budget=5000 \
		--window-size="$3" --screenshot="$guides/$1.png" "$2" 2>/dev/null
	[ -s "$guides/$1.png" ]
}

cp -r cmd/kernbench/testdata/outputs "$work/outputs"
(cd "$work/outputs" && "$bin" report ab/old ab/new -o change.html && "$bin" report solve) >/dev/null
photograph compare-two-versions "file://$work/outputs/change.html" 1000,1250
photograph scale-a-solve "file://$work/outputs/solve/figures/distributed_solve_scaling.svg" 1240,500
follow simulate-an-accelerator
photograph simulate-an-accelerator "file://$work/simulate-an-accelerator/topologies/figures/plot_time_us_vs_n_elem_by_sips.svg" 900,560
follow compare-fabrics
cp "$work/compare-fabrics/fabrics/figures/workload_step.png" "$guides/compare-fabrics.png"

cd "$work/outputs"
"$bin" web tutorial --addr 127.0.0.1:0 >web.log &
server=$!
until grep -q ' at http' web.log; do
	kill -0 $server
	sleep 0.1
done
address=$(sed -n 's/.* at \(http[^ ]*\).*/\1/p' web.log)
# The page of the second run. (The list of runs keeps a connection open, for which Chromium would wait.)
run=$(curl -s "${address%/}/api/runs" | grep -o '"run":"[^"]*"' | sed -n 2p | cut -d'"' -f4)
photograph track-nightly "${address%/}/run?run=$run" 1000,1180
kill -INT $server
wait $server
ls -l "$guides"/*.png
