"""A matrix product by a Triton kernel over its tile sizes, verified against torch's.

    kernbench run -f examples/python/matmul.py --plot x=size,y=tflops,by=tile

Without a GPU or without Triton every point is skipped, and says so.
"""

from kernbench import bench

try:
    import triton
    import triton.language as tl
    import torch
except ImportError as e:
    missing = str(e)
else:
    missing = "" if torch.cuda.is_available() else "no GPU"

    @triton.jit
    def product(a, b, c, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
        """One tile of c = a b, all of them n by n and n a multiple of the tile."""
        rows = tl.program_id(0) * M + tl.arange(0, M)
        columns = tl.program_id(1) * N + tl.arange(0, N)
        inner = tl.arange(0, K)
        sums = tl.zeros((M, N), dtype=tl.float32)
        for k in range(0, n, K):
            left = tl.load(a + rows[:, None] * n + (k + inner)[None, :])
            right = tl.load(b + (k + inner)[:, None] * n + columns[None, :])
            sums += tl.dot(left, right)
        tl.store(c + rows[:, None] * n + columns[None, :], sums.to(tl.bfloat16))


@bench.register
@bench.axis("size", [1024, 4096])
@bench.axis("tile", [(64, 64, 32), (128, 128, 64), (128, 256, 64)])
@bench.axis("by", ["triton", "torch"])
@bench.where(lambda p: p["by"] == "triton" or p["tile"] == (64, 64, 32), "torch chooses its tiles itself")
@bench.option("mode", "events", "how it is timed", choices=["wall", "events", "graph"])
def matmul(state, ctx):
    """Matrix product in bfloat16 by a Triton kernel, and by torch"""
    if missing:
        state.skip(missing)
    n, (M, N, K) = state["size"], state["tile"]
    torch.manual_seed(0)
    a, b = (torch.randn((n, n), device=ctx.device, dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)
    want = a.float() @ b.float()

    def by_triton():
        product[(n // M, n // N)](a, b, c, n, M, N, K, num_warps=8)

    def wrong():  # bfloat16 has 8 significant bits, and the sums grow with the square root of n
        return int(((c.float() - want).abs() > 0.02 * want.abs() + 0.01 * n ** 0.5).sum())

    state.verify(wrong)
    state.set_flops(2 * n ** 3)
    state.exec(by_triton if state["by"] == "triton" else lambda: torch.mm(a, b, out=c), preamble=c.zero_, mode=state["mode"])
