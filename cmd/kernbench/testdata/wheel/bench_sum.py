from kernbench import bench


@bench.register
@bench.axis("n", [10, 1000])
@bench.sampling(seconds=0.05)
def bench_sum(state, ctx):
    """Adds up numbers"""
    state.exec(lambda: sum(range(state["n"])))
