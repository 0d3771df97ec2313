#!/usr/bin/env bash
# Runs every fuzz target of the module, or of the given folders, for the given time, one after the other:
#   scripts/fuzz.sh [TIME [FOLDER...]]
# After each target, it adds the inputs that cover more statements to testdata/fuzz of the package. Every `go test`
# runs the files there, so commit them.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-60s}
most=20      # inputs per target
largest=4096 # bytes per input
module=$(go list -m)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# cover runs the target with the inputs whose names match the pattern. It writes the statements that they cover,
# and no earlier input does, to $work/new, and fails if there are none.
cover() {
	(cd "$folder" && "$work/test" -test.run "^$target\$/^($1)\$" -test.coverprofile="$work/profile" >/dev/null) || return
	awk 'NR > 1 && $NF > 0 { print $1 }' "$work/profile" | LC_ALL=C sort -u | LC_ALL=C comm -13 "$work/covered" - >"$work/new"
	[ -s "$work/new" ]
}

# keep copies the given inputs that cover more statements to $corpus. Most inputs do not, so it runs all of them at
# once, and then each half only if that was worth it.
keep() {
	local half=$(($# / 2)) kept
	kept=$(find "$corpus" -type f | wc -l)
	((kept < most)) || return 0
	cp "${@/#/$found/}" "$corpus"
	if ! cover "$(IFS='|' && echo "$*")"; then
		(cd "$corpus" && rm "$@")
	elif (($# == 1)); then
		LC_ALL=C sort -u -o "$work/covered" "$work/covered" "$work/new"
	else
		(cd "$corpus" && rm "$@")
		keep "${@:1:half}"
		keep "${@:half+1}"
	fi
}

# add keeps the useful ones of the inputs that Go has found and cached, the small ones first. It leaves out
# inputs that could name this machine.
add() {
	corpus=$folder/testdata/fuzz/$target
	found=$(go env GOCACHE)/fuzz/$module/$folder/$target
	[ -d "$found" ] || return 0
	mkdir -p "$corpus"
	find "$found" -type f -size "-$((largest + 1))c" -printf '%s %f\n' | sort -n | cut -d' ' -f2 >"$work/names"
	(cd "$found" && grep -laF -e "$HOME" -e "$PWD" -e "$(hostname)" -- * || true) >"$work/private"
	ls "$corpus" >>"$work/private"
	mapfile -t names < <(grep -vxFf "$work/private" "$work/names")
	go test -c -cover -coverpkg="$(go list -deps "./$folder" | grep "^$module" | paste -sd,)" -o "$work/test" "./$folder"
	: >"$work/covered"
	cover "seed#.*|$(ls "$corpus" | paste -sd'|')" || true # the inputs in the source and those kept earlier
	mv "$work/new" "$work/covered"
	((${#names[@]} == 0)) || keep "${names[@]}"
	rmdir -p --ignore-fail-on-non-empty "$corpus"
}

folders=("${@:2}")
grep -rlE '^func Fuzz' --include='*_test.go' "${folders[@]:-.}" | sed 's|^\./||' | sort -u >"$work/files"
while read -r file; do
	folder=$(dirname "$file")
	for target in $(grep -oE '^func Fuzz[A-Za-z0-9_]*' "$file" | sed 's/^func //'); do
		echo "== $target ($folder)"
		# By default, Go may spend a minute on shrinking each interesting input, and does nothing else then.
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1s "./$folder" </dev/null
		add </dev/null
	done
done <"$work/files"
