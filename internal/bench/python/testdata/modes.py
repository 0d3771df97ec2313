import sys

sys.path.insert(0, __file__.rpartition("/")[0] + "/fake")

import torch  # noqa: E402

from kernbench import bench  # noqa: E402


@bench.register
@bench.axis("mode", ["wall", "events", "graph", "preamble", "elsewhere", "unknown"])
@bench.sampling(max_samples=200)
def modes(state, ctx):
    assert ctx.device == "cuda:0"
    mode = state["mode"]
    preamble, side = None, torch.cuda.Stream()
    call = lambda: torch.cuda.work(7)  # noqa: E731
    if mode == "preamble":  # runs in the stream, but outside the events
        mode, preamble = "events", lambda: torch.cuda.work(1000)
    if mode == "elsewhere":
        mode, call = "events", lambda: torch.cuda.work(5000, on=side)
    if mode == "graph":  # the verified result comes from a replay
        state.verify(lambda: int([e for e in torch.cuda.log if "wait" not in e][-1].split()[0] != "replay"))
    state.exec(call, preamble=preamble, mode=mode)
