#!/usr/bin/env bash
# Prints the version of this tree: the number in internal/host/hostinfo/VERSION if the commit has the
# tag of that number, else a development version that sorts before it, such as 0.9.0.dev0+g1a2b3c4d5e6f.
# Uncommitted changes add ".dirty". Python, Debian and Go tools can all compare these versions.
set -euo pipefail
cd "$(dirname "$0")/.."
number=$(cat internal/host/hostinfo/VERSION)
commit=$(git rev-parse --short=12 HEAD 2>/dev/null || true)
if [ -z "$commit" ]; then
	echo "$number.dev0"
	exit
fi
dirty=$(git status --porcelain --untracked-files=no | head -c1)
if [ -z "$dirty" ] && [ "$(git tag --points-at HEAD --list "v$number")" ]; then
	echo "$number"
else
	echo "$number.dev0+g$commit${dirty:+.dirty}"
fi
