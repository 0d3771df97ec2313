#!/bin/sh
# Runs a command in a network namespace that has only the loopback interface, because MPI launchers and gloo
# listen on every interface and cannot be told otherwise. If no namespace can be created, it prints a warning
# and runs the command without one.
up='ip link set lo up 2>/dev/null || ifconfig lo up 2>/dev/null'
for how in -n -rn; do
	if unshare "$how" sh -c "$up" 2>/dev/null; then
		exec unshare "$how" sh -c "{ $up; } && exec \"\$@\"" alone "$@"
	fi
done
echo "alone.sh: no network namespace here (unshare, ip): the ranks listen on every interface" >&2
exec "$@"
