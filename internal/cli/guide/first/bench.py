"""A first bench in Python. Replace the copy with your own kernel."""

from kernbench import bench


@bench.register
@bench.axis("size", "4K:1M:x16", type="bytes")
def first(state, ctx):
    """Copies a block of memory"""
    source = bytearray(range(256)) * (state["size"] // 256)
    target = bytearray(len(source))

    def copy():
        target[:] = source

    state.verify(lambda: sum(a != b for a, b in zip(source, target)))  # a row with wrong elements fails
    state.set_bytes(2 * len(source))
    state.exec(copy)
