"""All-reduce over message sizes and the number of NCCL's (RCCL's) thread blocks.

    kernbench run -f examples/python/rccl_cta_sweep.py --ranks 8

Without a GPU it runs over gloo, which ignores the variables.
"""

import torch
import torch.distributed as dist

from kernbench import bench


@bench.register
@bench.axis("num_ranks", [2])
@bench.axis("M", [1, 32, 128, 512])
@bench.env({"NCCL_MIN_CTAS": [32, 64, bench.UNSET], "NCCL_MAX_CTAS": [32, 64, bench.UNSET]})
def rccl_cta_sweep(state, ctx):
    """All-reduce of M rows of 2880 numbers by torch.distributed"""
    M, ranks = state["M"], ctx.get_num_ranks()
    dtype = torch.float32 if ctx.device == "cpu" else torch.bfloat16  # gloo has no bfloat16
    tensor = torch.empty((M, 2880), dtype=dtype, device=ctx.device)
    state.verify(lambda: int((tensor != ranks * (ranks + 1) // 2).sum()))
    state.set_bytes(tensor.numel() * tensor.element_size() * 2 * (ranks - 1) / ranks)
    state.exec(lambda: dist.all_reduce(tensor), preamble=lambda: tensor.fill_(ctx.get_rank() + 1))
