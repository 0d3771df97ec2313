#!/usr/bin/env bash
# Installs the Debian packages that the tests need. For users other than root it prints what is missing, and the script
# fails: no test is skipped because something is not installed.
set -euo pipefail

has_library() { ldconfig -p | grep -q "$1"; }

# A C compiler for the race detector, torch for the torch.distributed example, Python
# modules for the wheel, the MPI launchers, tools for network namespaces, a runtime for containers, jq for the commands in
# the documents, a browser for the web page, and libraries that are opened at run time.
need=()
command -v gcc >/dev/null || need+=(gcc libc6-dev)
command -v g++ >/dev/null || need+=(g++)
/usr/bin/python3 -c 'import torch' 2>/dev/null || need+=(python3 python3-torch)
/usr/bin/python3 -c 'import ensurepip' 2>/dev/null || need+=(python3-venv)
/usr/bin/python3 -c 'import pytest' 2>/dev/null || need+=(python3-pytest)
/usr/bin/python3 -c 'import pandas' 2>/dev/null || need+=(python3-pandas)
/usr/bin/python3 -c 'import scipy' 2>/dev/null || need+=(python3-scipy)
command -v mpirun.openmpi >/dev/null || need+=(openmpi-bin)
command -v mpirun.mpich >/dev/null || need+=(mpich)
command -v ip >/dev/null || need+=(iproute2)
command -v crun >/dev/null || need+=(crun)
command -v jq >/dev/null || need+=(jq)
command -v chromium >/dev/null || need+=(chromium)
has_library libmetis.so.5 || need+=(libmetis5)
has_library libopenblas.so.0 || need+=(libopenblas0-pthread)
has_library libdnnl.so || need+=(libdnnl2)

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
