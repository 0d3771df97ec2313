"""A bench with no ranks and no library: how fast Python copies bytes.

    kernbench run -f examples/python/memory.py
"""

from kernbench import bench


@bench.register
@bench.axis("size", "4K:1M:x16", type="bytes")
@bench.axis("how", ["slice", "bytes"])
def python_copy(state, ctx):
    """Copies a block of memory within Python"""
    source = bytearray(range(256)) * (state["size"] // 256)
    target = bytearray(len(source))

    def by_slice():
        target[:] = source

    def by_bytes():
        return bytes(source)

    call = by_slice if state["how"] == "slice" else by_bytes
    if state["how"] == "slice":
        state.verify(lambda: sum(a != b for a, b in zip(source, target)))
    state.set_bytes(2 * len(source))
    state.exec(call)
