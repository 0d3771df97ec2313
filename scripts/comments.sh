#!/usr/bin/env bash
# Prints random comments of the Go sources, for a review by someone who does not know them:
#   scripts/comments.sh [SEED [COUNT]]
# A comment is a run of // lines together with the line of code that follows it. The same
# seed selects the same comments as long as the sources do not change.
set -euo pipefail
cd "$(dirname "$0")/.."
seed=${1:-1} many=${2:-100}
git ls-files -z '*.go' | xargs -0 awk '
	function flush(code) { if (text != "") print place "\x1f" text "\x1f" code; text = "" }
	FNR == 1 { flush("") }
	/^[ \t]*\/\/go:/ { next }
	/^[ \t]*\/\// { if (text == "") place = FILENAME ":" FNR; sub(/^[ \t]+/, ""); text = text (text == "" ? "" : "\x1e") $0; next }
	{ sub(/^[ \t]+/, ""); flush($0) }
	END { flush("") }' |
	awk -v seed="$seed" 'BEGIN { srand(seed) } { print rand() "\t" $0 }' | LC_ALL=C sort -n | cut -f2- |
	awk -v many="$many" 'NR <= many' |
	sed 's/$/\n/' | tr '\036\037' '\n\n'
