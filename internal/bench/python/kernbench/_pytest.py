"""The pytest plugin: fixtures that time functions, a table under the tests, and comparisons with a run.

    def test_sort(kernbench):
        kernbench(sorted, data)

The fixture benchmark has the common calls of pytest-benchmark, unless that plugin is installed.
"""

import json
import os
import re
import subprocess
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import pytest

import kernbench as module
from kernbench import _live, _notebook


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("kernbench")
    group.addoption("--kernbench-out", metavar="RUN", default=os.path.join("out", "pytest"),
                    help="folder for the rows (default out/pytest)")
    group.addoption("--kernbench-trials", metavar="N", type=int, default=5,
                    help="measure each function N times (default 5); a comparison needs at least 4")
    group.addoption("--kernbench-max-time", metavar="SECONDS", type=float, default=1.0,
                    help="sample for at most this long in each trial (default 1)")
    group.addoption("--kernbench-compare", metavar="RUN",
                    help="compare with this run, for example out/pytest@-1, the run before this one")
    group.addoption("--fail-slower", metavar="PERCENT", type=_percent,
                    help="with --kernbench-compare: fail if a test is slower by more than this, for example 5%%")


def _percent(text: str) -> float:
    number = re.match(r"^\s*([0-9.]+)\s*(%?)\s*$", text)
    if number is None:
        raise ValueError("%r: want a percentage such as 5%%" % text)
    return float(number.group(1)) / 100  # "5" means 5 % too


def pytest_configure(config: Any) -> None:
    if config.getoption("--fail-slower") is not None and not config.getoption("--kernbench-compare"):
        raise pytest.UsageError("--fail-slower needs --kernbench-compare RUN: the run to compare with")
    reporter = Reporter(config)
    config.pluginmanager.register(reporter, "kernbench-reporter")
    if not config.pluginmanager.hasplugin("benchmark"):
        config.pluginmanager.register(BenchmarkFixture(), "kernbench-benchmark")


class Timer:
    """The fixture: times one function per test."""

    def __init__(self, reporter: "Reporter", test: str) -> None:
        self._reporter, self._test = reporter, test
        self.mode = self.cache = ""
        self.bytes: Optional[float] = None
        self.flops: Optional[float] = None
        self.row: Optional[Dict[str, Any]] = None  # of the last trial
        self.stats: Dict[str, float] = {}  # of time_us, over the samples of the last trial
        self.extra_info: Dict[str, Any] = {}  # of pytest-benchmark; it is not recorded

    def __call__(self, fn: Callable, *args: Any, **kwargs: Any) -> Any:
        """Times fn(*args, **kwargs) and returns its result."""
        return self._measure(lambda: fn(*args, **kwargs), fn)

    def pedantic(self, target: Callable, args: Tuple = (), kwargs: Optional[Dict[str, Any]] = None,
                 setup: Optional[Callable] = None, rounds: int = 1, warmup_rounds: int = 0, iterations: int = 1) -> Any:
        """Takes a fixed number of samples in one trial. setup runs before each call, untimed; it may return the
        arguments as (args, kwargs). kernbench chooses how many calls make a sample, whatever iterations says."""
        given = [tuple(args), dict(kwargs or {})]

        def prepare() -> None:
            made = setup()
            if made is not None:
                given[:] = made

        return self._measure(lambda: target(*given[0], **given[1]), target, prepare if setup is not None else None,
                             {"warmup": warmup_rounds, "repeat": rounds})

    def _measure(self, call: Callable, fn: Callable, preamble: Optional[Callable] = None,
                 calls: Optional[Dict[str, int]] = None) -> Any:
        if self.row is not None:
            raise RuntimeError("the fixture times one function per test: parametrize the test, or write another one")
        result: List[Any] = []

        def body(state: Any, ctx: Any) -> None:
            for amount, record in ((self.bytes, state.set_bytes), (self.flops, state.set_flops)):
                if amount is not None:
                    record(amount)
            if calls is not None:
                state._calls.update(calls)
            if preamble is not None:
                preamble()
            _live.add_source(state, fn)
            result[:] = [call()]  # the timed calls do not keep theirs
            state.exec(call, preamble=preamble, mode=self.mode or _notebook.default_mode(), cache=self.cache)

        self.row = self._reporter.measure(self._test, body, calls is not None)
        self.stats = self.row.get("stats", {}).get("time_us", {})
        return result[0]


@pytest.fixture(name="kernbench")
def _kernbench(request: Any) -> Iterator[Timer]:
    """Times a function: kernbench(fn, *args)."""
    yield request.config.pluginmanager.getplugin("kernbench-reporter").timer(request)


class BenchmarkFixture:
    """The fixture of pytest-benchmark, where that plugin is not installed."""

    @pytest.fixture
    def benchmark(self, kernbench: Timer) -> Timer:
        """Times a function: benchmark(fn, *args), or benchmark.pedantic(fn, args, rounds=10)."""
        return kernbench


class Reporter:
    """Measures the functions of one pytest session as one run, and reports it."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.out = config.getoption("--kernbench-out")
        self.measured = 0
        self.slower: List[str] = []
        self.comparison = self.problem = ""

    def timer(self, request: Any) -> Timer:
        return Timer(self, request.node.nodeid)

    def measure(self, test: str, body: Callable, fixed: bool) -> Dict[str, Any]:
        declaration = _live.declare("pytest", body, {"test": [test]},
                                    trials=1 if fixed else self.config.getoption("--kernbench-trials"))
        flags = ["--quiet", "--remeasure", "0"]
        if not fixed:
            flags += ["--max-time", "%gs" % self.config.getoption("--kernbench-max-time")]
        if self.measured:
            flags.append("--resume")
        self.measured += 1
        session = _live.Session(declaration, _live.ADDED, self.out, flags)
        session.run()
        return session.good_row()

    def pytest_sessionfinish(self, session: Any, exitstatus: int) -> None:
        """Compares the run with an earlier one, and fails the session if a test is slower."""
        earlier = self.config.getoption("--kernbench-compare")
        if not self.measured or not earlier:
            return
        limit = self.config.getoption("--fail-slower")
        command = ["compare", earlier, self.out] + (["--floor", str(limit)] if limit is not None else [])
        table, found = self.kernbench(*command), self.kernbench(*command, "--format", "json")
        self.comparison = table.stdout or table.stderr
        if found.returncode == 2:
            self.problem = "kernbench compare: " + found.stderr.strip()
        elif limit is not None:
            self.slower = [p["point"]["test"] for p in json.loads(found.stdout)["points"] if p["verdict"] == "slower"]
        if (self.slower or self.problem) and exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def kernbench(self, *arguments: str) -> Any:
        return subprocess.run([module._binary(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.measured:
            return
        terminalreporter.section("kernbench: %s" % self.out)
        terminalreporter.write(self.kernbench("show", self.out).stdout)
        if self.comparison:
            terminalreporter.section("kernbench: compared with %s" % self.config.getoption("--kernbench-compare"))
            terminalreporter.write(self.comparison)
        for line in ["slower: " + test for test in self.slower] + ([self.problem] if self.problem else []):
            terminalreporter.write_line(line, red=True)
