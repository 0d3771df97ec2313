#!/usr/bin/env bash
# Runs a command, and appends what it used to the file $TIMES: its folder, seconds and seconds of processor time.
TIMEFORMAT="$PWD %R %U %S"
{ time "$@" 2>&3 3>&-; } 3>&2 2>>"$TIMES"
