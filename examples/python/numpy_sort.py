"""A bench with no ranks: how fast numpy sorts.

    kernbench run -f examples/python/numpy_sort.py --plot x=count,y=time_us,by=kind
"""

import numpy

from kernbench import bench


@bench.register
@bench.axis("count", "1K:1M:x32", type="int")
@bench.axis("kind", ["quicksort", "stable"])
@bench.axis("dtype", [numpy.float32, numpy.int64])
def numpy_sort(state, ctx):
    """Sorts random numbers in place by numpy"""
    given = numpy.random.default_rng(1).integers(0, 1 << 20, state["count"]).astype(state["dtype"])
    data, want = given.copy(), numpy.sort(given)

    def refill():
        data[:] = given

    state.verify(lambda: int((data != want).sum()))
    state.set_bytes(data.nbytes)
    state.exec(lambda: data.sort(kind=state["kind"]), preamble=refill)
