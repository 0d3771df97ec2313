#!/bin/sh
# Runs a program under one of the MPI libraries with one rank per core, or unbound if there are more ranks
# than cores.
# usage: mpi.sh openmpi|mpich RANKS PROGRAM [ARGUMENT...]
here=$(dirname "$0")
library=$1 ranks=$2
shift 2
enough() { [ "$ranks" -le "$(nproc)" ]; }
case $library in
openmpi)
	if enough; then set -- --bind-to core -np "$ranks" "$@"; else set -- --bind-to none --oversubscribe -np "$ranks" "$@"; fi
	set -- --allow-run-as-root "$@"
	;;
mpich)
	if enough; then set -- -bind-to core -n "$ranks" "$@"; else set -- -n "$ranks" "$@"; fi
	;;
*)
	echo "mpi.sh: library $library: want openmpi or mpich" >&2
	exit 2
	;;
esac
run=$(command -v "mpirun.$library" || command -v mpirun) || { echo "mpi.sh: no mpirun" >&2; exit 127; }
exec "$here/alone.sh" "$run" "$@"
