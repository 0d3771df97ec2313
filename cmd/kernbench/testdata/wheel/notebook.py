"""What a user of a notebook, and of triton.testing, writes. It needs no third-party module."""

import importlib.util
import math

import kernbench

FAST = ["--max-time", "50ms", "--remeasure", "0"]


def total(n, how):
    return sum(range(n)) if how == "range" else sum([1] * n)


frame = kernbench.run(total, {"n": [10, 1000], "how": ["range", "list"]}, bytes=lambda n, how: 8 * n, flags=FAST)
assert frame._repr_png_().startswith(b"\x89PNG\r\n"), "the figure is missing"
if importlib.util.find_spec("pandas"):
    assert list(frame["n"]) == [10, 10, 1000, 1000] and (frame["gbps"] > 0).all(), frame
    assert type(frame[frame["n"] == 10]).__name__ == "DataFrame"
    print("a frame of pandas")
else:
    assert [r["n"] for r in frame] == [10, 10, 1000, 1000] and all(r["gbps"] > 0 for r in frame), frame
    print("a list of rows")


def body(state, ctx):
    state.counter("answer", 42 * state["k"])


rows = kernbench.run(body, {"k": [1, 2]}, flags=FAST, progress=False)
assert len(rows) == 2 and len(kernbench.rows("out/body")) == 2

# An exception of the function is the caller's.
try:
    kernbench.run(lambda n: 1 // n, {"n": [0]}, flags=FAST, progress=False)
except ZeroDivisionError:
    print("the exception of the function")

data = list(range(1000))
ms = kernbench.do_bench(lambda: sorted(data), rep=20)
low, middle, high = kernbench.do_bench(lambda: sorted(data), rep=20, quantiles=[0.2, 0.5, 0.8])
assert 0 < low <= middle <= high and 0 < ms < 1000, (ms, low, middle, high)
assert len(kernbench.do_bench(lambda: None, rep=20, return_mode="all", name="empty")) > 19
assert [r["point"]["function"] for r in kernbench.rows("out/do_bench")] == ["lambda", "lambda #2", "empty"]


@kernbench.perf_report(kernbench.Benchmark(
    x_names=["N"], x_vals=[100, 1000], line_arg="provider", line_vals=["sum", "max"], line_names=["Sum", "Max"],
    ylabel="GB/s", plot_name="sum-performance", args={}))
def performance(N, provider):
    values = list(range(N))
    call = sum if provider == "sum" else max
    ms, low, high = kernbench.do_bench(lambda: call(values), rep=20, quantiles=[0.5, 0.2, 0.8])
    return 8 * N / ms / 1e6, 8 * N / high / 1e6, 8 * N / low / 1e6


report = performance.run(print_data=True, return_df=True, save_path="plots")
assert report._repr_png_().startswith(b"\x89PNG\r\n")
for row in kernbench.rows("plots/sum-performance"):  # one row has the value, its bounds and the time behind it
    m = row["metrics"]
    assert m["GB_s_low"] <= m["GB_s"] <= m["GB_s_high"], m
    assert math.isclose(m["GB_s"], 8 * row["point"]["N"] / m["time_us"] / 1e3, rel_tol=0.01), m
print("all as in triton.testing")
