"""iris.bench on kernbench: files written for it run unchanged.

    import iris.bench as bench

    @bench.register
    @bench.axis("num_ranks", [2, 4, 8])
    @bench.axis("M", bench.power_of_two(8, 13))
    def all_gather(state, ctx):
        ...

    if __name__ == "__main__":
        bench.main()

The defaults follow iris.bench: 8 ranks, and 25 + 100 calls with a barrier before each. `kernbench
run -f FILE` measures such a file as any other, and bench.main() accepts the flags of iris.bench and
prints its tables.
"""

import json
import os
import re
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional

import kernbench as core
from kernbench._timing import Wall

__all__ = ["AxisDef", "BenchmarkDef", "EnvDef", "Result", "State", "axis", "context", "env", "linear_range", "main",
           "power_of_two", "register"]

RANKS = "num_ranks"
DEFAULT_RANKS = 8
WARMUP, REPEAT, HEAP = 25, 100, 1 << 34
FLAGS = "KERNBENCH_IRIS_FLAGS"  # the variable by which main passes its flags to the processes of the run

power_of_two, linear_range, context = core.bench.power_of_two, core.bench.linear_range, core.bench.context


@dataclass
class AxisDef:
    """An axis and its values."""

    name: str
    values: List[Any]


@dataclass
class EnvDef:
    """An environment variable and its values."""

    name: str
    values: List[Any]


@dataclass
class BenchmarkDef:
    """A registered benchmark."""

    name: str
    fn: Callable
    axes: List[AxisDef]
    envs: List[EnvDef] = field(default_factory=list)
    recorded: str = ""  # its name in rows: a second benchmark of the same name is NAME-2


@dataclass
class Result:
    """The result of one benchmark with one combination of parameters. Times are in milliseconds."""

    benchmark_name: str
    params: Dict[str, Any]
    gpu_time_ms: float  # the slowest rank's median
    all_times_ms: List[float]  # the samples of rank 0
    min_time_ms: Optional[float] = None  # the fastest rank's median
    skew_pct: Optional[float] = None  # the difference of the two, relative to the slowest
    bandwidth_gbps: Optional[float] = None
    tflops: Optional[float] = None
    counters: Dict[str, float] = field(default_factory=dict)
    skipped: bool = False
    skip_reason: str = ""
    world_size: int = 1
    failed: bool = False  # then the reason says why

    @property
    def local_times_ms(self) -> List[float]:
        return self.all_times_ms


registry: List[BenchmarkDef] = []


def axis(name: str, values: Any) -> Callable:
    """An axis. The outermost decorator varies slowest. The axis num_ranks sets the number of processes."""

    def decorate(fn: Callable) -> Callable:
        fn.__dict__.setdefault("_bench_axes", []).insert(0, AxisDef(name, list(values)))
        return fn

    return decorate


def env(name: Any, values: Any = None) -> Callable:
    """An environment variable, set before the processes start."""

    def decorate(fn: Callable) -> Callable:
        fn.__dict__.setdefault("_bench_envs", []).insert(0, EnvDef(name, values))
        return fn

    return decorate


def register(fn: Callable) -> Callable:
    """Declares fn(state, ctx) as a benchmark. It must be the outermost decorator."""
    b = BenchmarkDef(fn.__name__, fn, list(getattr(fn, "_bench_axes", [])), list(getattr(fn, "_bench_envs", [])))
    same = sum(1 for other in registry if other.name == b.name)
    b.recorded = "%s-%d" % (b.name, same + 1) if same else b.name
    registry.append(b)
    flags = Flags.of_environment()
    if flags.selects(b):
        declare(b, flags)
    return fn


class Flags:
    """The flags of main that choose benchmarks and values. Processes of the run read them from a
    variable, because they apply while the file is imported."""

    def __init__(self, axes: Dict[str, str], skips: Dict[str, str], filter: str = "", world: int = 0) -> None:
        self.axes, self.skips, self.filter, self.world = axes, skips, filter, world

    @staticmethod
    def of_environment() -> "Flags":
        return Flags(**json.loads(os.environ.get(FLAGS) or '{"axes": {}, "skips": {}}'))

    def text(self) -> str:
        return json.dumps(self.__dict__)

    def values(self, a: AxisDef) -> List[Any]:
        """The values of an axis: from --axis_NAME or as declared, without the values of --skip_NAME."""
        values = parse_values(self.axes[a.name], a.name) if a.name in self.axes else a.values
        left_out = parse_values(self.skips[a.name], a.name) if a.name in self.skips else []
        kept: List[Any] = []
        for v in values:
            if not any(_same(v, w) for w in left_out) and not any(_same(v, w) for w in kept):
                kept.append(v)
        return kept

    def ranks(self, b: BenchmarkDef) -> List[int]:
        """The numbers of ranks of a benchmark."""
        declared = [a for a in b.axes if a.name == RANKS]
        if declared or RANKS in self.axes:
            return self.values(declared[0] if declared else AxisDef(RANKS, []))
        return [DEFAULT_RANKS]

    def shows_ranks(self, b: BenchmarkDef) -> bool:
        """Whether the number of ranks is a column."""
        return RANKS in self.axes or any(a.name == RANKS for a in b.axes)

    def matches(self, b: BenchmarkDef) -> bool:
        return not self.filter or re.search(self.filter, b.name) is not None

    def selects(self, b: BenchmarkDef) -> bool:
        """Whether the benchmark has a point to run."""
        ranks = self.ranks(b)
        if self.world:
            ranks = [n for n in ranks if n == self.world]
        return self.matches(b) and bool(ranks) and all(self.values(a) for a in b.axes)


def _same(v: Any, w: Any) -> bool:
    return v is w or isinstance(v, bool) == isinstance(w, bool) and bool(v == w)


_SHORT = {"fp16": "float16", "fp32": "float32", "bf16": "bfloat16"}
_SHORT.update({name: name for name in list(_SHORT.values())})


def parse_values(text: str, name: str) -> List[Any]:
    """Parses the values of --axis_NAME and --skip_NAME: 1024,2048, pow2:8:13, lin:64:256:64, or names of
    element types."""
    words = text.strip().split(":")
    for kind, count, make in (("pow2", 3, power_of_two), ("lin", 4, linear_range)):
        if words[0] == kind and len(words) > 1:
            try:
                numbers = [int(w) for w in words[1:]]
            except ValueError:
                numbers = []
            if len(numbers) != count - 1:
                want = "pow2:START:STOP" if kind == "pow2" else "lin:START:STOP:STEP"
                raise ValueError("axis %s: %r: want whole numbers as in %s" % (name, text, want))
            return make(*numbers)
    words = [w.strip() for w in text.split(",")]
    types = [_SHORT.get(w.lower()) for w in words]
    if all(types):
        import torch

        return [getattr(torch, t) for t in types]
    if name == "dtype":
        bad = [w for w, t in zip(words, types) if not t]
        raise ValueError("axis dtype: %s: want %s" % (", ".join(bad), ", ".join(sorted(_SHORT))))
    for number in (int, float):
        try:
            return [number(w) for w in words]
        except ValueError:
            continue
    return words


def declare(b: BenchmarkDef, flags: Flags) -> None:
    """Declares a benchmark to kernbench."""
    d = core._Declaration()
    d.fn, d.name, d.registered, d.dialect = b.fn, b.recorded, True, sys.modules[__name__]
    ranks = [n for n in flags.ranks(b) if not flags.world or n == flags.world]
    clauses = [core.bench.axis(RANKS, ranks)]
    clauses += [core.bench.env(e.name, e.values) for e in b.envs]
    clauses += [core.bench.axis(a.name, flags.values(a)) for a in b.axes if a.name != RANKS]
    taken = {a.name for a in b.axes}
    for name, default, help in (("heap_size", HEAP, "bytes of the symmetric heap of iris"),
                                ("use_gluon", False, "use the Gluon context of iris"),
                                ("n_warmup", WARMUP, "calls before the timing"), ("n_repeat", REPEAT, "timed calls")):
        if name not in taken:
            clauses.append(core.bench.option(name, default, help))
    for clause in reversed(clauses):
        clause._clause(d)
    d.settings["timeout"] = 600.0  # iris.bench has no limit; compiling its kernels takes minutes
    d.settings["trials"] = 1  # iris.bench launches each environment once
    d.settings["sampling"] = {"cadence": "isolated", "warmup": WARMUP, "repeat": REPEAT}
    core.bench.begun.append(d)
    core.bench.declared.append(d)


class State(core.State):
    """The state of iris.bench. Files also read its counts of calls."""

    def __init__(self, values: Dict[str, Any], env: Optional[Dict[str, Optional[str]]] = None, num_ranks: int = 1,
                 cold: bool = False) -> None:
        super().__init__(values, env, num_ranks, cold)
        self._n_warmup: int = values.get("n_warmup", WARMUP)
        self._n_repeat: int = values.get("n_repeat", REPEAT)

    def set_warmup(self, n: int) -> None:
        super().set_warmup(n)
        self._n_warmup = n

    def set_repeat(self, n: int) -> None:
        super().set_repeat(n)
        self._n_repeat = n

    def exec(self, fn: Callable, *, preamble_fn: Optional[Callable] = None, **modes: Any) -> None:
        """Sets the call to time. A second call replaces it, and keeps the preamble unless there is another."""
        if modes:
            super().exec(fn, preamble_fn=preamble_fn, **modes)
            return
        if preamble_fn is None and self._timer is not None:
            preamble_fn = self._timer.preamble
        self._timer = make_timer(fn, preamble_fn or (lambda: None))

    def add_counter(self, name: str, value: float) -> None:
        """Adds a column. kernbench's own metrics keep their names, so a counter of such a name is
        recorded as counter.NAME."""
        self.counter("counter." + name if name in core._RESERVED else name, value)

    def _prepared(self) -> dict:
        self._calls = {"warmup": self._n_warmup, "repeat": self._n_repeat}
        if self._timer is not None and hasattr(self._timer, "warmup_calls"):
            self._timer.warmup_calls = self._n_warmup
        prepared = super()._prepared()
        prepared["details"] = {"iris": "not installed: the context of kernbench", "counters": json.dumps(list(self._counters))}
        module = sys.modules.get("iris")
        if _installed():
            prepared["details"]["iris"] = str(getattr(module, "__version__", "installed"))
        if self._report.get("bytes") == 0:
            prepared["details"]["bytes"] = "0"
        return prepared


def make_timer(call: Callable, preamble: Callable) -> Any:
    """Returns the timer of a call: events of the GPU if torch has one, else the host's clock."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and _has_events(torch):
        return _DeviceTimer(call, preamble, torch)
    return _HostTimer(call, preamble, None)


def _has_events(torch: Any) -> bool:
    """Whether torch can record events. A stand-in for a GPU may lack them; the clock in the row says
    which timer was used."""
    try:
        torch.cuda.Event(enable_timing=True).record()
    except (RuntimeError, AssertionError, AttributeError):
        return False
    return True


class _HostTimer(Wall):
    """Times calls by the host's clock. Including the first call, which is not counted, it makes
    exactly as many calls as iris.do_bench."""

    warmup_calls = WARMUP

    def sample(self, count: int, batch: int) -> List[int]:
        if self.warm or self.warmup_calls:
            return super().sample(count, batch)
        # kernbench warms up by at least one call: without a warm-up that is the first call.
        self.prepare()
        start = time.perf_counter_ns()
        self.once()
        return [time.perf_counter_ns() - start] + (super().sample(count - 1, batch) if count > 1 else [])


class _DeviceTimer(_HostTimer):
    """Times each call by two events, with a preamble and a flush of the L2 cache before it, as
    iris.do_bench does. The barrier of all ranks between them is kernbench's."""

    def __init__(self, call: Callable, preamble: Callable, torch: Any) -> None:
        super().__init__(call, preamble, None)
        self.torch, self.cold = torch, True
        self.cache = torch.empty(64 << 20, dtype=torch.int, device="cuda")  # 256 MB, as in iris
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]

    def clock(self) -> dict:
        maker = "hip" if getattr(self.torch.version, "hip", None) else "cuda"
        return {"name": maker + " events", "overhead": 0, "resolution": 500, "device": True}

    def prepare(self) -> None:
        if not self.prepared:
            self.preamble()
            self.cache.zero_()
            self.torch.cuda.synchronize()
        self.prepared = False

    def run(self) -> None:
        result = self.call()
        if hasattr(result, "wait") and hasattr(result, "is_completed"):
            result.wait()  # makes the current stream wait for an asynchronous collective

    def once(self) -> None:
        self.prepared = False
        self.run()
        self.torch.cuda.synchronize()
        self.warm = True

    def sample(self, count: int, batch: int) -> List[int]:
        if not self.warm:
            self.prepare()
            self.once()
            if not self.warmup_calls:
                return [0] * count
        times = []
        for _ in range(count):
            self.prepare()
            self.events[0].record()
            self.run()
            self.events[1].record()
            self.torch.cuda.synchronize()
            times.append(round(self.events[0].elapsed_time(self.events[1]) * 1e6))
        return times


def _installed() -> bool:
    import kernbench_iris

    return "iris" in sys.modules and not kernbench_iris.missing("iris")


def make_context(base: Any, state: State, make: Optional[Callable]) -> Any:
    """Returns the context of the bodies: the user's own, iris's, or one over torch."""
    base.heap_size, base.use_gluon = state.get("heap_size", HEAP), state.get("use_gluon", False)
    if make is not None:
        return make(base)
    if not _installed():
        return Context(base)
    if base.use_gluon:
        import iris.experimental.iris_gluon as gluon

        return gluon.iris(base.heap_size)
    return sys.modules["iris"].iris(base.heap_size)


class Context:
    """The part of an iris context that torch alone can provide. Anything else needs iris."""

    def __init__(self, base: Any) -> None:
        self._base = base
        self.num_ranks, self.cur_rank = base.get_num_ranks(), base.get_rank()
        try:
            import torch

            self._torch = torch
        except ImportError:
            self._torch = None

    @property
    def device(self) -> str:
        return self._base.device

    def get_rank(self) -> int:
        return self._base.get_rank()

    def get_num_ranks(self) -> int:
        return self._base.get_num_ranks()

    def barrier(self, *_: Any, **__: Any) -> None:
        """Waits for the device and for all ranks."""
        dist = sys.modules.get("torch.distributed")
        if self._torch is not None and self._torch.cuda.is_available():
            self._torch.cuda.synchronize()
        if dist is not None and dist.is_available() and dist.is_initialized():
            dist.barrier()
        else:
            self._base.barrier()

    def _make(self, name: str, args: tuple, keywords: Dict[str, Any]) -> Any:
        if self._torch is None:
            raise RuntimeError("ctx.%s needs torch, which is not installed here" % name)
        if keywords.get("device") is None:
            keywords["device"] = self.device
        return getattr(self._torch, name)(*args, **keywords)

    def zeros(self, *size: Any, **keywords: Any) -> Any:
        return self._make("zeros", size, keywords)

    def ones(self, *size: Any, **keywords: Any) -> Any:
        return self._make("ones", size, keywords)

    def full(self, *args: Any, **keywords: Any) -> Any:
        return self._make("full", args, keywords)

    def empty(self, *size: Any, **keywords: Any) -> Any:
        return self._make("empty", size, keywords)

    def randn(self, *size: Any, **keywords: Any) -> Any:
        return self._make("randn", size, keywords)

    def arange(self, *args: Any, **keywords: Any) -> Any:
        return self._make("arange", args, keywords)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        import kernbench_iris

        raise kernbench_iris.MissingPackage("ctx.%s needs iris, which %s" % (name, kernbench_iris.reason("iris")))


def main(argv: Optional[List[str]] = None) -> None:
    """The command line of iris.bench. Call it under `if __name__ == "__main__"`."""
    if core.bench.serving:
        return
    from kernbench import _iris_main

    _iris_main.main(argv)
