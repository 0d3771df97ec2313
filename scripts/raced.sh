#!/usr/bin/env bash
# Lists the packages that the race detector is for: those whose code or tests start
# goroutines, lock or use atomics. In the others nothing runs at the same time, so it
# has nothing to find; a sync.Once alone, or an example's source in a string, is no reason.
set -euo pipefail
cd "$(dirname "$0")/.."
git grep -lE '^[[:space:]]*go (func|[a-z][a-zA-Z.]*\()|\.Go\(|sync\.(Mutex|RWMutex|WaitGroup|Cond|Map|Pool)|atomic\.' -- '*.go' ':!*/escape_test.go' |
	xargs -n1 dirname | sort -u | sed 's|^|./|'
