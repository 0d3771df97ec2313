import sys

sys.path.insert(0, __file__.rpartition("/")[0] + "/fake")

from kernbench import bench  # noqa: E402


async def later():
    pass


@bench.register
@bench.axis("trap", ["bool", "coroutine", "generator", "jax", "jax, nothing", "device", "exec", "skip"])
@bench.sampling(max_samples=50)
def traps(state, ctx):
    """Mistakes that would give wrong times"""
    trap = state["trap"]
    if trap == "bool":
        state.verify(lambda: False)
        state.exec(lambda: None)
    if trap == "coroutine":
        state.exec(later)
    if trap == "generator":
        state.exec(lambda: (i for i in range(9)))
    if "jax" in trap:
        import jax

        state.verify(lambda: int(jax.waited[-1][-1] != ("a", "b")))
        state.exec(lambda: ("a", "b") if trap == "jax" else None)
    if trap in ("exec", "skip"):
        state.exec(lambda: state.exec(lambda: None) if trap == "exec" else state.skip())
    if trap == "device":
        import torch

        torch.cuda.reserved[1] = 1  # a tensor on the other device
        torch.cuda.set_device(0)
        state.verify(lambda: int(torch.cuda.log[-2:] != ["wait 0", "wait 1"]))
        state.exec(lambda: torch.cuda.work(1))
