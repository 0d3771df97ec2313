"""The file of the benches, for processes that it starts by multiprocessing's "spawn": they import the
functions that they are to run from the module in which these were defined. `kernbench python FILE` names
the file in a variable, because multiprocessing then replaces sys.argv[0]."""

import os
import sys

import kernbench_iris

_path = os.environ.get("KERNBENCH_SCRIPT") or sys.argv[0]
kernbench_iris.install(_path)
with open(_path, encoding="utf-8") as _f:
    exec(compile(_f.read(), _path, "exec"), globals())
