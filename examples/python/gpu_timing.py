"""Twelve kernels of torch, Triton and CuPy, timed by kernbench and by the tools that their users know.

    kernbench run -f examples/python/gpu_timing.py --trials 5 --out timing
    python3 examples/python/gpu_timing.py timing

The first command measures each kernel with a cold cache by events (beside triton.testing.do_bench),
as a graph (beside do_bench_cudagraph), and with a warm cache by events (beside events around each
call after a barrier, 25 + 100 calls, as iris.do_bench has them). The second prints the tables.
scripts/gpu-timing.sh does both. It needs a GPU, torch, Triton and CuPy.
"""

import json
import statistics
import subprocess
import sys

METHODS = {"cold": "do_bench", "graph": "do_bench_cudagraph", "warm": "iris"}
KERNELS = ["torch add 64K", "torch softmax 4096x256", "torch softmax 4096x4096", "torch mm 512", "torch mm 2048",
           "torch mm 8192", "triton add 1M", "triton softmax 4096x1024", "triton add 64M", "cupy saxpy 64K",
           "cupy multiply 16M", "cupy multiply 256M"]


def tables(run: str) -> None:
    """Prints the medians of all trials as Markdown tables."""
    shown = subprocess.run(["kernbench", "show", run, "--format", "jsonl"], stdout=subprocess.PIPE, check=True)
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    found, notes = {}, []
    for r in rows:
        key = (r["point"]["kernel"], r["point"]["method"])
        if r["status"] != "ok":
            notes.append("%s, %s: %s: %s" % (*key, r["status"], r.get("reason", "").split("\n")[0]))
            continue
        both = found.setdefault(key, ([], []))
        both[0].append(r["metrics"]["time_us"])
        both[1].append(r["metrics"]["peer_us"])
        remarks = [c["text"] for c in r.get("conditions", []) if c["code"] == "remark"]
        notes += ["%s, %s: %s" % (*key, text) for text in remarks if "GPU" in text or "graph" in text]

    def pair(kernel, method):
        ours, theirs = (statistics.median(times) for times in found.get((kernel, method), ([float("nan")],) * 2))
        off = abs(ours - theirs)
        return ours, theirs, "%+.1f %%" % (100 * (ours / theirs - 1)), "yes" if off <= max(0.03 * theirs, 0.3) else "no"

    def span(kernel, side):
        times = found.get((kernel, "cold"), ([float("nan")],) * 2)[side]
        return "%.2f to %.2f" % (min(times), max(times))

    if not found:
        sys.exit("%s has no times: %s" % (run, "; ".join(sorted(set(notes))[:3])))
    print("Medians of %d runs, in µs. Equal means within 3 %% or 0.3 µs.\n" % max(len(v[0]) for v in found.values()))
    print("| kernel | events, cold | do_bench | | equal | graph | do_bench_cudagraph | | equal |")
    print("|---|---|---|---|---|---|---|---|---|")
    for k in KERNELS:
        print("| %s | %.2f | %.2f | %s | %s | %.2f | %.2f | %s | %s |" % (k, *pair(k, "cold"), *pair(k, "graph")))
    print("\n| kernel | events, warm | iris.do_bench's method | |\n|---|---|---|---|")
    for k in KERNELS:
        print("| %s | %.2f | %.2f | %s |" % (k, *pair(k, "warm")[:3]))
    print("\n| kernel, cold cache | events, lowest to highest run | do_bench, lowest to highest run |\n|---|---|---|")
    for k in KERNELS:
        print("| %s | %s | %s |" % (k, span(k, 0), span(k, 1)))
    for n in sorted(set(notes)):
        print("\n" + n, end="")
    print()


if __name__ == "__main__":
    tables(sys.argv[1])
    sys.exit()

from kernbench import bench  # noqa: E402

try:
    import cupy
except ImportError as e:
    no_cupy = str(e)
else:
    no_cupy = ""
try:
    import torch
    import triton
    import triton.language as tl
    from triton.testing import do_bench, do_bench_cudagraph
except ImportError as e:
    missing = str(e)
else:
    missing = "" if torch.cuda.is_available() else "no GPU"

    @triton.jit
    def add(x, y, out, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at) + tl.load(y + at))

    @triton.jit
    def softmax(x, out, N: tl.constexpr):
        at = tl.program_id(0) * N + tl.arange(0, N)
        row = tl.load(x + at)
        e = tl.exp(row - tl.max(row, axis=0))
        tl.store(out + at, e / tl.sum(e, axis=0))


def prepare(name):
    """Returns the call, a check of its result, and the call for a torch stream that is not the default."""
    library, kernel, size = name.split()
    if library == "cupy":
        return by_cupy(kernel, size)
    if kernel == "mm":
        n = int(size)
        x, y = (torch.randn((n, n), device="cuda", dtype=torch.bfloat16) for _ in range(2))
        out = torch.empty_like(x)
        want = torch.mm(x, y)
        call = lambda: torch.mm(x, y, out=out)  # noqa: E731
    elif kernel == "softmax":
        x = torch.randn([int(n) for n in size.split("x")], device="cuda")
        out, want = torch.empty_like(x), torch.softmax(x, 1)
        if library == "torch":
            call = lambda: torch.softmax(x, 1, out=out)  # noqa: E731
        else:
            call = lambda: softmax[(x.shape[0],)](x, out, x.shape[1])  # noqa: E731
    else:
        n = int(size[:-1]) << {"K": 10, "M": 20}[size[-1]]
        x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
        out, want = torch.empty_like(x), x + y
        if library == "torch":
            call = lambda: torch.add(x, y, out=out)  # noqa: E731
        else:
            call = lambda: add[(n // 1024,)](x, y, out, 1024)  # noqa: E731
    return call, lambda: int((~torch.isclose(out, want, rtol=1e-2, atol=1e-2)).sum()), call


def by_cupy(kernel, size):
    n = int(size[:-1]) << {"K": 10, "M": 20}[size[-1]]
    x, out = cupy.ones(n, dtype=cupy.float32), cupy.zeros(n, dtype=cupy.float32)
    if kernel == "saxpy":
        code = 'extern "C" __global__ void saxpy(const float *x, float *out, float a) {' \
               ' int i = blockIdx.x * blockDim.x + threadIdx.x; out[i] = a * x[i] + 1; }'
        raw = cupy.RawKernel(code, "saxpy")
        call, want = lambda: raw((n // 256,), (256,), (x, out, cupy.float32(2))), 3  # noqa: E731
    else:
        call, want = lambda: cupy.multiply(x, cupy.float32(2), out=out), 2  # noqa: E731

    def on_torch():
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            call()

    return call, lambda: int((out != want).sum()), on_torch


def iris(fn):
    """Events around each call after a barrier: 25 + 100 calls, in milliseconds."""
    for _ in range(26):
        fn()
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(100)]
    for start, end in pairs:
        torch.cuda.synchronize()
        start.record()
        fn()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in pairs)


@bench.register
@bench.axis("kernel", KERNELS)
@bench.axis("method", list(METHODS))
@bench.sampling(seconds=0.4)
@bench.metric("peer_us", "us", "lower")
def gpu_timing(state, ctx):
    """Kernels of torch, Triton and CuPy beside do_bench, do_bench_cudagraph and iris.do_bench"""
    if missing:
        state.skip(missing)
    if no_cupy and state["kernel"].startswith("cupy"):
        state.skip(no_cupy)
    method = state["method"]
    call, wrong, on_torch = prepare(state["kernel"])
    if method == "cold":
        peer = do_bench(call, return_mode="median")
        state.exec(call, mode="events", cache="cold")
    elif method == "graph":
        peer = do_bench_cudagraph(on_torch, return_mode="median")
        state.exec(call, mode="graph")
    else:
        peer = iris(call)
        state.exec(call, mode="events")
    state.counter("peer_us", 1000 * peer, "us", "lower")
    state.verify(wrong)
