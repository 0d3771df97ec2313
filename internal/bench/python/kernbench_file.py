"""The file of the benches, for processes that a bench starts by multiprocessing's "spawn": they import
the functions that they are to run from the module in which these were defined."""

import sys

import kernbench_iris

kernbench_iris.install(sys.argv[0])
with open(sys.argv[0], encoding="utf-8") as _f:
    exec(compile(_f.read(), sys.argv[0], "exec"), globals())
