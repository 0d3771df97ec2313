#!/usr/bin/env bash
# Lists the packages that the race detector is for: those whose code or tests
# start goroutines or use locks and atomics. In the others nothing runs at the
# same time, so it has nothing to find.
set -euo pipefail
cd "$(dirname "$0")/.."
git grep -lE '^[[:space:]]*go [a-z]|\.Go\(|"sync(/atomic)?"' -- '*.go' | xargs -n1 dirname | sort -u | sed 's|^|./|'
