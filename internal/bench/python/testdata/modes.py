import sys

sys.path.insert(0, __file__.rpartition("/")[0] + "/fake")

import torch  # noqa: E402

from kernbench import bench  # noqa: E402


class Lazy:
    """An object among the modules that has no attributes, as CuPy puts one there."""

    def __getattr__(self, name):
        raise AttributeError(name)


sys.modules["lazy"] = Lazy()


@bench.register
@bench.axis("mode", ["wall", "events", "graph", "cold", "preamble", "waiting preamble", "waiting call", "elsewhere",
                     "cold graph", "unknown"])
@bench.sampling(max_samples=40, seconds=0.2)
def modes(state, ctx):
    assert ctx.device == "cuda:0"
    mode = state["mode"]
    preamble, cache, side = None, "", torch.cuda.Stream()
    call = lambda: torch.cuda.work(7)  # noqa: E731
    if mode == "cold":
        mode, cache = "events", "cold"
    if mode == "cold graph":
        mode, cache = "graph", "cold"
    if mode == "preamble":  # runs in the stream, but outside the events
        mode, preamble = "events", lambda: torch.cuda.work(100)
    if mode == "waiting preamble":
        mode, preamble = "events", lambda: (torch.cuda.work(100), torch.cuda.synchronize())
    if mode == "waiting call":
        mode, call = "events", lambda: (torch.cuda.work(7), torch.cuda.synchronize())
    if mode == "elsewhere":
        mode, call = "events", lambda: torch.cuda.work(1500, on=side)
    if mode == "graph":  # the verified result comes from a replay
        state.verify(lambda: int([e for e in torch.cuda.log if "wait" not in e][-1].split()[0] != "replay"))
    state.exec(call, preamble=preamble, mode=mode, cache=cache)
