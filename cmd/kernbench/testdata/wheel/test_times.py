import os

import pytest

data = list(range(1000))
SLOW = int(os.environ.get("SLOW", 1))  # the planted regression


def test_sum(kernbench):
    kernbench.bytes = 8000
    assert kernbench(lambda: [sum(data) for _ in range(SLOW)][0]) == 499500
    assert kernbench.stats["p50"] > 0 and kernbench.row["metrics"]["gbps"] > 0
    with pytest.raises(RuntimeError, match="one function per test"):
        kernbench(sum, data)


@pytest.mark.parametrize("n", [10, 100])
def test_sorted(benchmark, n):
    assert benchmark(sorted, data[:n]) == data[:n]


def test_pedantic(benchmark):
    seen = []
    benchmark.pedantic(seen.append, setup=lambda: (("given by setup",), {}), rounds=30, warmup_rounds=2)
    assert set(seen) == {"given by setup"} and benchmark.row["samples"] == 30


def test_raises(kernbench):
    with pytest.raises(ZeroDivisionError):
        kernbench(lambda: 1 / 0)


def test_without_fixture():
    pass
