"""A first bench in Python. Put your own kernel in the place of the copy."""

from kernbench import bench


@bench.register
@bench.axis("size", "4K:1M:x16", type="bytes")
def first(state, ctx):
    """Copies a block of memory"""
    source = bytearray(range(256)) * (state["size"] // 256)
    target = bytearray(len(source))

    def copy():
        target[:] = source

    state.verify(lambda: sum(a != b for a, b in zip(source, target)))  # a wrong result is never a fast one
    state.set_bytes(2 * len(source))
    state.exec(copy)
