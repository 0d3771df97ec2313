#!/usr/bin/env bash
# Installs what the tests need from Debian's packages, by name. As another user
# than root it says what is missing and stops: a test never skips for that.
set -euo pipefail

# A C compiler for the race detector, and the torch.distributed example.
need=()
command -v gcc >/dev/null || need+=(gcc libc6-dev)
/usr/bin/python3 -c 'import torch' 2>/dev/null || need+=(python3 python3-torch)

if [ ${#need[@]} -eq 0 ]; then
	exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "The tests need packages that are not installed. Run this, then make test again:" >&2
	echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${need[*]}" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null
