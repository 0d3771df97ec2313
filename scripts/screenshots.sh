#!/usr/bin/env bash
# screenshots.sh [bin/kernbench] makes the pictures of docs/guides. It runs the commands of each
# guide that has a picture and takes screenshots of the results in a headless Chromium. The pictures show measured
# times, so they differ from machine to machine.
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
cd "$(dirname "$0")/.."
guides=$PWD/docs/guides
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$bin" "$work/kernbench"

# The commands of a guide, without the web server, which would run forever.
follow() {
	mkdir "$work/$1"
	awk '/^```sh$/ {on = 1; next} /^```$/ {on = 0} on && !/^kernbench web/' "$guides/$1.md" >"$work/$1.sh"
	# The exit codes of compare and check depend on the measured times, so they are ignored.
	(cd "$work/$1" && PATH=$work:$PATH bash "$work/$1.sh" >commands.log 2>&1) || true
}

photograph() { # GUIDE ADDRESS WIDTH,HEIGHT
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" --virtual-time-budget=5000 \
		--window-size="$3" --screenshot="$guides/$1.png" "$2" 2>/dev/null
	[ -s "$guides/$1.png" ]
}

follow compare-two-versions
photograph compare-two-versions "file://$work/compare-two-versions/change.html" 1000,1250
follow simulate-an-accelerator
photograph simulate-an-accelerator "file://$work/simulate-an-accelerator/topologies/figures/plot_time_us_vs_n_elem_by_sips.svg" 900,560
follow scale-a-solve
photograph scale-a-solve "file://$work/scale-a-solve/solve/figures/distributed_solve_scaling.svg" 1240,500

follow track-nightly
cd "$work/track-nightly"
"$bin" web nightly --addr 127.0.0.1:0 >web.log &
server=$!
until grep -q ' at http' web.log; do
	kill -0 $server
	sleep 0.1
done
address=$(sed -n 's/.* at \(http[^ ]*\).*/\1/p' web.log)
run=$(curl -s "${address%/}/api/runs" | grep -o '"run":"[^"]*"' | head -1 | cut -d'"' -f4)
photograph track-nightly "${address%/}/run?run=$run" 1000,1180
kill -INT $server
wait $server
ls -l "$guides"/*.png
