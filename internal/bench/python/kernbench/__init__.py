"""Benchmarks in Python, run by kernbench.

    from kernbench import bench

    @bench.register
    @bench.axis("num_ranks", [2])
    @bench.axis("M", [1, 32, 128])
    @bench.env("NCCL_MIN_CTAS", [32, 64, bench.UNSET])
    def sweep(state, ctx):
        data = bytearray(state["M"] * 1024)
        state.set_bytes(len(data))
        state.exec(lambda: bytes(data))

`kernbench run -f FILE.py` runs every point. This module needs only the standard library
of Python 3.8. kernbench contains it, and `kernbench python --print-module` prints it.
docs/protocol.md describes the messages that it exchanges with kernbench.
"""

import atexit
import faulthandler
import gc
import glob
import hashlib
import importlib.machinery
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import traceback
import types
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Union

__all__ = ["bench", "rows", "frame", "State", "Context"]

PROTOCOL = 1
SOCKET = "KERNBENCH_SOCKET"


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


class _Skip(BaseException):
    """Ends a body early. It is not an Exception, so that `except Exception` does not catch it."""


class _Declaration:
    """The declarations of one function's decorators, outermost first."""

    def __init__(self) -> None:
        self.name = ""
        self.fn: Callable = lambda state, ctx: None
        self.axes: List[dict] = []
        self.envs: List[dict] = []
        self.zips: List[List[str]] = []
        self.wheres: List[tuple] = []
        self.options: List[dict] = []
        self.metrics: List[dict] = []
        self.settings: Dict[str, Any] = {}
        self.values: Dict[str, List[Any]] = {}  # by axis: the declared values
        self.registered = False
        self.dialect: Any = None  # _iris for benches written for iris.bench

    def message(self) -> dict:
        doc = (self.fn.__doc__ or "").strip()
        return {
            "name": self.name, "help": doc.split("\n")[0], "doc": doc, "axes": self.axes, "envs": self.envs,
            "zips": self.zips, "wheres": len(self.wheres), "options": self.options, "metrics": self.metrics,
            **self.settings,
        }


def _text(value: Any) -> str:
    """Formats a value for tables and the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return "x".join(str(v) for v in value)
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    return getattr(value, "__name__", str(value)).replace("torch.", "")


# The usual names of element types, and the names that torch and numpy give them.
_DTYPES = {"fp16": "float16", "half": "float16", "f16": "float16", "bf16": "bfloat16", "fp32": "float32",
           "f32": "float32", "float": "float32", "fp64": "float64", "f64": "float64", "double": "float64", "i8": "int8",
           "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8"}
_DTYPES.update({name: name for name in list(_DTYPES.values()) + ["float8_e4m3fn", "float8_e5m2", "bool"]})


def _dtype_of(values: Sequence[Any]) -> Optional[Callable[[str], Any]]:
    """Returns the function that finds the element type with a name, if all values are element types of
    torch or all are types of numpy, else None."""
    kinds = {(type(v).__module__, type(v).__name__) for v in values}
    if kinds == {("torch", "dtype")}:
        return lambda name: getattr(sys.modules["torch"], name, None)
    if values and all(isinstance(v, type) and v.__module__ == "numpy" for v in values):
        return lambda name: getattr(sys.modules["numpy"], name, None)
    return None


def _words(values: Sequence[Any]) -> Dict[str, str]:
    """The texts that the command line accepts for an axis over objects, with the texts of the values
    that they mean: the declared values and, for element types, the usual names of all types. An axis
    over texts accepts every text."""
    if all(isinstance(v, str) for v in values):
        return {}
    words = {_text(v): _text(v) for v in values}
    find = _dtype_of(values)
    for word, name in _DTYPES.items() if find is not None else ():
        if find(name) is not None:
            words[word] = _text(find(name))
    return words


def _plain(value: Any) -> Any:
    """Converts a numpy number to a Python number."""
    is_number = type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0
    return value.item() if is_number else value


def _kind(values: Sequence[Any]) -> str:
    def all_are(*types: type) -> bool:
        return all(isinstance(v, types) for v in values)

    if all_are(bool):
        return "bool"
    if any(isinstance(v, bool) for v in values):
        return "string"
    if all_are(int):
        return "int"
    if all_are(int, float):
        return "float"
    if values and all(isinstance(v, (tuple, list)) and v and all(type(n) is int and n >= 0 for n in v) for v in values):
        return "tuple"
    return "string"


class _Bench:
    """The decorators. The outermost axis varies slowest; `register` goes on top."""

    UNSET = _Unset()

    def __init__(self) -> None:
        self.begun: List[_Declaration] = []  # one per decorated function
        self.declared: List[_Declaration] = []
        self.patterns: List[str] = []
        self.make_context: Optional[Callable] = None
        self.serving = False  # whether kernbench imports the file: main does nothing then

    def _of(self, fn: Callable) -> _Declaration:
        d = getattr(fn, "_kernbench", None)
        if d is None:
            d = fn._kernbench = _Declaration()
            d.fn = fn
            self.begun.append(d)
        if d.registered:
            raise TypeError("bench.register must be the outermost decorator of %s" % fn.__name__)
        return d

    def _clause(self, add: Callable[[_Declaration], None]) -> Callable:
        def decorate(fn: Callable) -> Callable:
            add(self._of(fn))
            return fn

        decorate._clause = add  # used by zip
        return decorate

    def register(self, fn: Optional[Callable] = None, *, name: str = "") -> Callable:
        """Declares fn(state, ctx) as a benchmark, by its own name or the given one."""
        if fn is None:
            return lambda f: self.register(f, name=name)
        d = self._of(fn)
        d.name = name or fn.__name__
        if any(other.name == d.name for other in self.declared):
            raise ValueError("two benches are called %s: bench.register(name=...) gives one another name" % d.name)
        d.registered = True
        self.declared.append(d)
        if len(self.declared) == 1 and _is_script(fn):
            atexit.register(self._at_end, os.getpid())
        return fn

    def axis(self, name: str, values: Union[str, Sequence[Any]], type: str = "") -> Callable:
        """An axis over values, or over a SPEC such as "1K:64M:x4". The type (int, bytes, float,
        string, bool, dtype, tuple) is the type of the values unless given. Values of any other
        type are named by their text, and the body gets the value itself."""

        def add(d: _Declaration) -> None:
            if isinstance(values, str):
                d.axes.insert(0, {"name": name, "type": type or "int", "spec": values})
                return
            listed = [_plain(v) for v in values]
            kind = type or _kind(listed)
            for text in map(_text, listed):
                if re.search(r" at 0x[0-9a-f]+>", text):
                    raise TypeError("bench.axis(%r): %s is named by its address, which differs in every process: give it a "
                                    "__str__ or a __name__" % (name, text))
            d.axes.insert(0, {"name": name, "type": kind, "values": [_text(v) for v in listed],
                              "words": _words(listed) if kind == "string" else {}})
            d.values[name] = listed

        return self._clause(add)

    def env(self, name: Union[str, Dict[str, Any]], values: Any = None) -> Callable:
        """A swept environment variable, set before the file is imported; bench.UNSET removes it. A text
        or a number is one value. A mapping of several variables to lists of equal length varies them
        together; variables with one value keep it."""
        if isinstance(name, dict):
            single = [self.env(n, [v]) for n, v in name.items() if self._is_value(v)]
            lists = [self.env(n, v) for n, v in name.items() if not self._is_value(v)]
            together = single if not lists else single + lists[:1] if len(lists) == 1 else single + [self.zip(*lists)]
            return self._clause(lambda d: [clause._clause(d) for clause in reversed(together)])
        if values is None:
            raise TypeError("bench.env(%r): its values are missing" % name)
        listed = [values] if self._is_value(values) else values
        texts = [None if v is self.UNSET or v is None else _text(_plain(v)) for v in listed]
        return self._clause(lambda d: d.envs.insert(0, {"name": name, "values": texts}))

    def _is_value(self, v: Any) -> bool:
        """Whether this is one value of a variable, not a list of values."""
        return v is None or v is self.UNSET or isinstance(v, (str, bytes)) or not hasattr(v, "__iter__")

    def power_of_two(self, first: int, last: int) -> List[int]:
        """The powers of two from 2**first to 2**last."""
        return [1 << e for e in range(first, last + 1)]

    def linear_range(self, first: int, last: int, step: int) -> List[int]:
        """The numbers from first to last in equal steps. last belongs to them if a step reaches it."""
        return list(range(first, last + 1, step))

    def context(self, make: Callable) -> Callable:
        """Has bodies get make(ctx) as their second argument. It is called once in every process, after
        torch.distributed has been initialised, with the context that kernbench provides."""
        self.make_context = make
        return make

    def zip(self, *clauses: Callable) -> Callable:
        """Makes axes and environment variables vary together instead of being crossed."""

        def add(d: _Declaration) -> None:
            axes, envs, zips = len(d.axes), len(d.envs), len(d.zips)
            for clause in reversed(clauses):
                clause._clause(d)
            added = d.axes[:len(d.axes) - axes] + d.envs[:len(d.envs) - envs]
            del d.zips[:len(d.zips) - zips]  # zips declared inside are part of this one
            d.zips.insert(0, [a["name"] for a in added])

        return self._clause(add)

    def where(self, keep: Callable[[Dict[str, Any]], Union[bool, str]], reason: str = "") -> Callable:
        """Drops the points for which keep(point) returns False or a text, which is the recorded
        reason. keep must depend on the point alone, because kernbench calls it while planning."""
        return self._clause(lambda d: d.wheres.insert(0, (keep, reason)))

    def option(self, name: str, default: Any, help: str = "", choices: Sequence[str] = (), type: str = "") -> Callable:
        """A parameter with one value per run: a flag of `kernbench run`, read as state[name]."""
        o = {"name": name, "type": type or _kind([default]), "default": _text(default), "help": help,
             "choices": [_text(c) for c in choices]}
        return self._clause(lambda d: d.options.insert(0, o))

    def metric(self, name: str, unit: str = "", better: str = "") -> Callable:
        """Declares the unit of a counter and which direction is better: "lower" or "higher"."""
        return self._clause(lambda d: d.metrics.insert(0, {"name": name, "unit": unit, "better": better}))

    def backends(self, *names: str) -> Callable:
        """The supported backends, the default first. `--backend NAME` chooses one, and ctx.backend has
        its name. torch.distributed is initialised with it."""
        return self._clause(lambda d: d.settings.update(backends=list(names)))

    def inputs(self, *patterns: str) -> Callable:
        """Names files that the benches of this file depend on, such as "kernel.cu" or "data/*.bin",
        relative to its folder. Rows of changed files are never mixed with earlier ones. The file itself,
        and the modules that it imports and that are not installed packages, are always included."""
        self.patterns.extend(patterns)
        return lambda fn: fn

    def timeout(self, seconds: float) -> Callable:
        """Limits the time of one point in one trial."""
        return self._clause(lambda d: d.settings.update(timeout=float(seconds)))

    def trials(self, n: int) -> Callable:
        """Repeats whole launches, to show the variance between processes."""
        return self._clause(lambda d: d.settings.update(trials=int(n)))

    def sampling(self, cadence: str = "", noise: Optional[float] = None, seconds: Optional[float] = None,
                 min_samples: Optional[int] = None, max_samples: Optional[int] = None) -> Callable:
        """How a point is sampled: cadence "streaming" or "isolated" (all ranks meet before each
        sample), until the median is known to noise (0.01 is 1 %), within the bounds."""
        given = dict(cadence=cadence or None, noise=noise, seconds=seconds, min_samples=min_samples,
                     max_samples=max_samples)
        chosen = {k: v for k, v in given.items() if v is not None}
        return self._clause(lambda d: d.settings.setdefault("sampling", {}).update(chosen))

    def _at_end(self, pid: int) -> None:
        """Hands a file that was started as `python3 FILE.py` over to kernbench when it reaches its
        end, unless it ends by an exception or in a forked process."""
        if getattr(sys, "last_type", None) is not None or os.getpid() != pid:
            return
        try:
            self.main()
        except SystemExit as e:  # atexit handlers would swallow it
            print(e.code, file=sys.stderr, flush=True)
            os._exit(1)

    def main(self) -> None:
        """Hands a file started as `python3 FILE.py` over to kernbench, which runs it with this
        interpreter. This happens automatically at the end of the file; call it in files that continue
        after their declarations, and for `python3 -m`."""
        if self.serving:
            return
        atexit.unregister(self._at_end)
        sys.stdout.flush()
        sys.stderr.flush()
        os.environ["KERNBENCH_PYTHON"] = sys.executable
        os.execv(_binary_or_exit(), ["kernbench", "run", "-f", sys.argv[0]] + sys.argv[1:])


bench = _Bench()


def _is_script(fn: Callable) -> bool:
    """Whether the function is declared by the very file that was started as `python3 FILE.py`: not
    by kernbench, a notebook, `python3 -i`, `python3 -m` or another program that imports the file."""
    script = sys.modules.get("__main__")
    return (fn.__module__ == "__main__" and getattr(script, "__spec__", None) is None
            and getattr(script, "__file__", None) == fn.__code__.co_filename and not sys.flags.interactive)


def _binary() -> str:
    """The kernbench program: the one named by the variable KERNBENCH, the one of the installed wheel, or
    the one in the PATH."""
    name = os.environ.get("KERNBENCH")
    installed = os.path.join(os.path.dirname(globals().get("__file__") or ""), "bin", "kernbench")
    if not name and os.path.isabs(installed) and os.access(installed, os.X_OK):
        return installed
    path = shutil.which(name or "kernbench")
    if path is None:
        raise FileNotFoundError("%s: no such program: put kernbench on the PATH, or its path into the variable KERNBENCH"
                                % (name or "kernbench"))
    return path


def _binary_or_exit() -> str:
    """_binary for commands, which end with the message alone."""
    try:
        return _binary()
    except FileNotFoundError as missing:
        sys.exit(str(missing))


def rows(run: str) -> List[Dict[str, Any]]:
    """The latest rows of a RUN folder as plain dicts (docs/journal-schema.md), for notebooks."""
    return _shown(run, "jsonl")


def frame(run: str) -> Any:
    """The same rows as a pandas.DataFrame with the columns of `kernbench show RUN --format csv`."""
    import pandas

    return pandas.DataFrame(_shown(run, "records"))


def _shown(run: str, format: str) -> List[Dict[str, Any]]:
    shown = subprocess.run([_binary(), "show", run, "--format", format], check=True, stdout=subprocess.PIPE)
    return [json.loads(line) for line in shown.stdout.splitlines() if line.strip()]


if TYPE_CHECKING:
    from kernbench._notebook import run as run
    from kernbench._solve import SolveError as SolveError, solve as solve
    from kernbench._triton import Benchmark as Benchmark, do_bench as do_bench, perf_report as perf_report

_DOORS = {"run": "_notebook", "do_bench": "_triton", "perf_report": "_triton", "Benchmark": "_triton",
          "solve": "_solve", "SolveError": "_solve"}


def __getattr__(name: str) -> Any:
    """Imports the functions that time functions of this process when they are first used."""
    if name not in _DOORS:
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    import importlib

    try:
        return getattr(importlib.import_module("kernbench." + _DOORS[name]), name)
    except ModuleNotFoundError as e:
        if not (e.name or "").startswith("kernbench."):
            raise
        raise ImportError("kernbench.%s is not in this copy of kernbench.py: install the wheel of kernbench" % name)


class Context:
    """The rank and device that a body runs on."""

    def __init__(self, link: "_Link", hello: dict) -> None:
        self._link = link
        self.rank: int = hello["rank"]
        self.num_ranks: int = hello["num_ranks"]
        self.local_rank: int = hello["local_rank"]
        self.backend: str = hello.get("backend", "")
        self._device = -1

    def get_rank(self) -> int:
        return self.rank

    def get_num_ranks(self) -> int:
        return self.num_ranks

    def get_local_rank(self) -> int:
        return self.local_rank

    @property
    def device(self) -> str:
        """The name of this rank's device for torch: "cuda:0", or "cpu" without a GPU. Reading it makes
        it torch's current device, whose stream records the events."""
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_available():
            return "cpu"
        if self._device < 0:
            self._device = self.local_rank % torch.cuda.device_count()
            torch.cuda.set_device(self._device)
        return "cuda:%d" % self._device

    def barrier(self) -> None:
        """Waits for all ranks. Use it only in the untimed part of a body."""
        self._link.send({"barrier": {}})
        self._link.receive()


class _Environment(dict):
    """The swept environment variables as this process sees them; None is unset."""

    def __missing__(self, name: str) -> Any:
        raise KeyError("%r is not a swept environment variable of this bench, which has %s"
                       % (name, ", ".join(self) or "none"))


def _line() -> str:
    """The place in the bench that called this module, for messages."""
    frame = sys._getframe()
    while frame is not None and _is_own(frame.f_code.co_filename):
        frame = frame.f_back
    return " (%s:%d)" % (os.path.basename(frame.f_code.co_filename), frame.f_lineno) if frame is not None else ""


_RESERVED = ("time_us", "gbps", "tflops", "algbw", "busbw", "pct_of_limit", "wrong")


class State:
    """Gives a body its point, and collects its results."""

    def __init__(self, values: Dict[str, Any], env: Optional[Dict[str, Optional[str]]] = None, num_ranks: int = 1,
                 cold: bool = False) -> None:
        self._values = values
        self.env = _Environment(env or {})
        self._alone, self._cold = num_ranks == 1, cold
        self._timer: Any = None  # a timer of _timing
        self._checks: List[Callable] = []
        self._report: Dict[str, Any] = {}
        self._counters: Dict[str, dict] = {}
        self._calls: Dict[str, int] = {}
        self._prepares = True  # until the body returns

    def __getitem__(self, name: str) -> Any:
        if name in self._values:
            return self._values[name]
        if name in self.env:
            return self.env[name]
        raise KeyError("%r is neither an axis nor an option nor a swept variable of this bench, which has %s"
                       % (name, ", ".join([*self._values, *self.env])))

    def get(self, name: str, default: Any = None) -> Any:
        return self._values.get(name, self.env.get(name, default))

    def _amount(self, what: str, n: float) -> float:
        if not math.isfinite(n) or n < 0:
            raise ValueError("%s(%r): want a number of 0 or more%s" % (what, n, _line()))
        return float(n)

    def set_bytes(self, n: float) -> None:
        """Declares how many bytes one call moves, the same on all ranks. The row gets the metric gbps."""
        self._report["bytes"] = self._amount("state.set_bytes", n)

    def set_flops(self, n: float) -> None:
        """Declares how many floating-point operations one call executes, the same on all ranks. The row
        gets the metric tflops."""
        self._report["flops"] = self._amount("state.set_flops", n)

    def counter(self, name: str, value: float, unit: str = "", better: str = "", combine: str = "max") -> None:
        """Records a metric. combine says how the numbers of the ranks make the row's number: "max", "sum"
        or "rank0". A second call with the same name replaces the first."""
        if not name:
            raise ValueError("state.counter(%r): want a name%s" % (name, _line()))
        if name in _RESERVED:
            raise ValueError("state.counter(%r): kernbench computes the metric of that name: choose another name%s"
                             % (name, _line()))
        if combine not in ("max", "sum", "rank0"):
            raise ValueError("state.counter(%r, combine=%r): want \"max\", \"sum\" or \"rank0\"%s"
                             % (name, combine, _line()))
        if not math.isfinite(value):
            raise ValueError("state.counter(%r, %r): want a finite number%s" % (name, value, _line()))
        self._counters[name] = {"name": name, "value": float(value), "unit": unit, "better": better, "combine": combine}

    add_counter = counter

    def set_warmup(self, n: int) -> None:
        """Fixes the number of calls before the timing of this point."""
        self._calls["warmup"] = int(self._amount("state.set_warmup", n))

    def set_repeat(self, n: int) -> None:
        """Fixes the number of samples of this point. Flags of the run take precedence."""
        if n < 1:
            raise ValueError("state.set_repeat(%r): want at least 1%s" % (n, _line()))
        self._calls["repeat"] = int(n)

    def _prepared(self) -> dict:
        """What the body has reported."""
        calls = {"warmup": 25, "repeat": 100, **self._calls} if self._calls else {}
        timer = self._timer
        return {"exec": timer is not None, "preamble": timer is not None and timer.preamble is not None,
                "clock": timer and timer.clock(), "cache": "cold" if timer and timer.cold else "warm",
                "verify": bool(self._checks), "late": True,
                "counters": list(self._counters.values()), **calls, **self._report}

    def verify(self, check: Callable[[], int]) -> None:
        """Adds a check, which returns the number of wrong elements. It runs after one call before the
        timing, and again after the last timed call."""
        self._checks.append(check)

    def skip(self, reason: str = "") -> None:
        """Leaves the point out. All ranks must do so together."""
        self._in_body("state.skip")
        raise _Skip(reason)

    def _in_body(self, what: str) -> None:
        """Fails after the body has returned: then the point is being timed."""
        if not self._prepares:
            raise RuntimeError("%s was called by a function that is timed or checks: call it in the body%s"
                               % (what, _line()))

    def exec(self, fn: Callable, preamble: Optional[Callable] = None, sync: Optional[Callable] = None,
             mode: str = "wall", preamble_fn: Optional[Callable] = None, cache: str = "") -> None:
        """Sets the function to time. It is called after the body has returned. A preamble runs
        before each call and is not timed. A second call of exec replaces the first. The mode says how
        calls are timed:

        wall    by the clock of the host, until the work is done: until sync() returns if it is given,
                else until the device that torch or CuPy uses is idle and the result of fn is ready
        events  by events of CUDA or HIP on the current stream of torch or CuPy, before and after the calls,
                which are all queued before the first one begins
        graph   by events around the replay of a graph that holds many calls

        cache="cold" flushes the GPU's cache before each call, as `--cache cold` does; "warm" is the default.
        """
        from kernbench._timing import MODES  # not there in a copy of this file alone, which times nothing

        self._in_body("state.exec")
        if mode not in MODES:
            raise ValueError("mode=%r: want one of %s" % (mode, ", ".join(MODES)))
        if sync is not None and mode != "wall":
            raise ValueError("mode=%r waits by events; sync is for mode=\"wall\"" % mode)
        if cache not in ("", "warm", "cold"):
            raise ValueError("cache=%r: want \"warm\" or \"cold\"" % cache)
        self._timer = MODES[mode](fn, preamble or preamble_fn, sync, self._cold or cache == "cold", self._alone)

    def _wrong(self) -> int:
        wrong = 0
        for check in self._checks:
            n = check()
            if isinstance(n, bool) or str(getattr(n, "dtype", "")).endswith("bool"):
                raise TypeError("a check must return the number of wrong elements, 0 if all are right, not %r" % (n,))
            if n is None or n != n or int(n) != n or n < 0:
                raise TypeError("a check must return the number of wrong elements, not %r" % (n,))
            wrong += int(n)
        return wrong


class _Link:
    """The socket to kernbench: one JSON object per line, each answered by one."""

    def __init__(self, fd: int) -> None:
        self.socket = socket.socket(fileno=fd)
        self.socket.set_inheritable(False)
        self.lines = self.socket.makefile("r", encoding="utf-8", newline="\n")
        self.pid = os.getpid()

    def send(self, message: dict) -> None:
        if os.getpid() != self.pid:
            raise RuntimeError("only the process that kernbench started can wait for the other ranks, not one that it forked")
        self.socket.sendall((json.dumps(message, allow_nan=False) + "\n").encode())

    def receive(self) -> Optional[dict]:
        line = self.lines.readline()
        return json.loads(line) if line else None


class _Server:
    """Answers kernbench's requests with the benches of one file."""

    def __init__(self, link: _Link, path: str) -> None:
        self.link, self.path = link, path
        self.context: Optional[Context] = None
        self.state: Any = State({})
        self.environ: Dict[str, Optional[str]] = {}
        self.body_context: Any = None  # what bodies get as ctx
        self.source = ""
        self.joined = False

    def serve(self) -> None:
        while True:
            request = self.link.receive()
            if request is None:
                return
            try:
                reply = self.reply(request)
            finally:
                if os.getpid() != self.link.pid:  # a process that a body forked returned from it
                    _leave()
            sys.stdout.flush()
            sys.stderr.flush()
            self.link.send(reply)

    def reply(self, request: dict) -> dict:
        try:
            (verb, arguments), = request.items()
            answer = getattr(self, "on_" + verb, None)
            if answer is None:
                raise ValueError("%s: no such request in protocol %d" % (verb, PROTOCOL))
            return answer(arguments)
        except _Skip as skip:
            return {"skip": str(skip)}
        except BaseException as e:
            if os.getpid() != self.link.pid:
                raise
            lines = "".join(traceback.format_exception_only(type(e), e)).strip().split("\n")
            return {"error": {"reason": lines[-1 if isinstance(e, SyntaxError) else 0], "trace": _trace(e)}}

    def on_hello(self, hello: dict) -> dict:
        """Imports the file, and returns its declarations and environment."""
        if hello["protocol"] != PROTOCOL:
            raise RuntimeError("this module speaks protocol %d, kernbench %s" % (PROTOCOL, hello["protocol"]))
        self.context = Context(self.link, hello)
        self.environ = {name: os.environ.get(name) for name in hello["watch"]}
        bench.serving = True
        self.source = _load(self.path)
        for d in bench.begun:
            if not d.registered:
                raise TypeError("%s has decorators of a bench: put @bench.register on top of them" % d.fn.__name__)
        return {"benches": [d.message() for d in bench.declared], "environ": self.environ, "clock": _calibrate(),
                "version": _version(), "source": hashlib.sha256(self.source.encode()).hexdigest(),
                "inputs": _local_modules(self.path), "files": _files(self.path)}

    def declaration(self, name: str) -> _Declaration:
        for d in bench.declared:
            if d.name == name:
                return d
        raise ValueError("%s declares no bench %r" % (self.path, name))

    def values(self, d: _Declaration, coordinates: List[dict]) -> Dict[str, Any]:
        """The values of a point: the declared objects, not the texts that stand for them."""
        values = {}
        for c in coordinates:
            v, declared = c["value"], d.values.get(c["name"], [])
            if c["type"] == "tuple":
                v = tuple(int(n) for n in v.split("=")[-1].split("x"))
                v = next((w for w in declared if tuple(w) == v), v)
            elif c["type"] == "string":
                find = _dtype_of(declared)
                named = [w for w in declared if _text(w) == v]
                if not named and find is None and not all(isinstance(w, str) for w in declared):
                    raise ValueError("the axis %s has no value %s in this process: the name of a value must be the same in "
                                     "every process, and the name of a set is not" % (c["name"], v))
                v = named[0] if named else find(v) if find is not None else v
            elif c["type"] == "float":
                v = next((w for w in declared if w == v), float(v))
            values[c["name"]] = v
        return values

    def on_where(self, asked: dict) -> dict:
        d = self.declaration(asked["bench"])
        for keep, reason in d.wheres:
            answer = keep(self.values(d, asked["point"]))
            if isinstance(answer, str) and answer:
                return {"dropped": answer}
            if answer is None or isinstance(answer, str):
                raise TypeError("bench.where: the predicate must return True, False or a reason, not %r" % (answer,))
            if not answer:
                return {"dropped": reason or "dropped by bench.where"}
        return {"dropped": ""}

    def on_point(self, asked: dict) -> dict:
        """Runs the body, and returns what it reported."""
        d = self.declaration(asked["bench"])
        self.state = None  # free the memory of the last point before this one allocates
        gc.collect()
        self.context.device  # makes it the current device
        self.join(d)
        values = self.values(d, asked["point"])
        kind = d.dialect.State if d.dialect else State
        self.state = state = kind(values, self.environ, self.context.num_ranks, asked.get("cache") == "cold")
        if self.body_context is None:
            self.body_context = self.make_context(d, state)
        _hook("set_strict", True)
        d.fn(state, self.body_context)
        state._prepares = False
        return state._prepared()

    def make_context(self, d: _Declaration, state: Any) -> Any:
        if d.dialect:
            return d.dialect.make_context(self.context, state, bench.make_context)
        return bench.make_context(self.context) if bench.make_context else self.context

    def on_report(self, _: dict) -> dict:
        """Returns the counters again, because timed calls may have set some."""
        return self.state._prepared()

    def timer(self) -> Any:
        if self.state is None or self.state._timer is None:
            raise RuntimeError("no point has been prepared")
        return self.state._timer

    def on_preamble(self, _: dict) -> dict:
        timer = self.timer()
        timer.prepared = False
        timer.prepare()
        timer.prepared = True
        return {}

    def on_call(self, _: dict) -> dict:
        self.timer().once()
        return {}

    def on_verify(self, _: dict) -> dict:
        return {"wrong": self.state._wrong()}

    def on_sample(self, asked: dict) -> dict:
        timer, collecting = self.timer(), gc.isenabled()
        gc.disable()
        try:
            return {"samples": timer.sample(asked["count"], asked["batch"]), "warning": timer.warning}
        finally:
            if collecting:
                gc.enable()

    def join(self, d: _Declaration) -> None:
        """Initialises torch.distributed, once, if the file uses it and has not done so."""
        if self.joined or not d.dialect and not re.search(
                r"torch\.distributed|from torch import .*\bdistributed\b", self.source):
            return
        self.joined = True
        try:
            import torch
            import torch.distributed as dist
        except ImportError:
            if d.dialect and "torch" not in self.source:
                return
            raise
        if not dist.is_available() or dist.is_initialized():
            return
        nccl = torch.cuda.is_available() and dist.is_nccl_available()
        backend = self.context.backend if "backends" in d.settings else "nccl" if nccl else "gloo"
        self.context.device  # makes it the current device
        dist.init_process_group(backend, rank=self.context.rank, world_size=self.context.num_ranks)


def _leave() -> None:
    """Ends a process that a body has forked, as it would end if nothing else followed the body."""
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        code = error.code
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    else:
        code = 0 if error is None else 1
        if error is not None:
            print(_trace(error), file=sys.stderr, end="")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def _is_own(path: str) -> bool:
    """Whether a file belongs to this module or to Python's import system."""
    return path.startswith((_FOLDER, "<string>", "<frozen "))


_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "kernbench")


def _trace(error: BaseException) -> str:
    """The traceback as Python prints it, without the frames of this module."""
    shown = traceback.TracebackException(type(error), error, error.__traceback__)
    chain: Any = shown
    while chain is not None:
        chain.stack[:] = [f for f in chain.stack if not _is_own(f.filename)]
        chain = chain.__cause__ or chain.__context__
    alone = not shown.stack and shown.__cause__ is None and shown.__context__ is None
    return "".join(shown.format_exception_only() if alone else shown.format())


def _hook(function: str, *args: Any) -> None:
    """Calls a function of kernbench_iris. A copy of this file alone has none."""
    try:
        import kernbench_iris
    except ImportError:
        return
    getattr(kernbench_iris, function)(*args)


def _load(path: str) -> str:
    """Runs the file as a module, with its folder on the path, as python3 does. Cached bytecode is
    neither read nor written, so that the current file is measured."""
    with open(path, encoding="utf-8") as f:
        source = f.read()
    os.environ.pop("KERNBENCH_SCRIPT", None)  # set by the `kernbench python FILE` that started this run
    _run_file(path, [], source, "kernbench_file")
    return source


def _run_file(path: str, arguments: List[str], source: str, name: str) -> None:
    """Executes a file as the module of that name."""
    sys.argv = [path] + arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    _hook("install", os.path.abspath(path))
    module = types.ModuleType(name)
    module.__file__ = path
    module.__spec__ = importlib.machinery.ModuleSpec("kernbench_file", None)  # what spawned processes import
    sys.modules[name] = module
    exec(compile(source, path, "exec"), module.__dict__)


def _script() -> None:
    """Runs a file with its arguments as `python3 FILE` would, for `kernbench python FILE`."""
    path, arguments = sys.argv[1], sys.argv[2:]
    sys.excepthook = lambda kind, error, trace: print(_trace(error), file=sys.stderr, end="")
    try:
        with open(path, encoding="utf-8") as f:
            source = f.read()
    except OSError as e:
        sys.exit("kernbench: reading %s: %s" % (path, e.strerror))
    os.environ["KERNBENCH_SCRIPT"] = os.path.abspath(path)
    _run_file(path, arguments, source, "__main__")


def _module_files(path: str) -> Dict[str, str]:
    """The files of imported modules that are the user's own: neither the standard library nor
    installed packages. Names are paths relative to the folder of the bench file, or names of modules."""
    folder = os.path.dirname(os.path.abspath(path))
    library = tuple(os.path.abspath(sysconfig.get_path(k)) + os.sep for k in ("stdlib", "platstdlib"))
    found = {}
    for module, loaded in list(sys.modules.items()):
        # sys.modules may also hold objects that are no modules, and modules that are loaded when an attribute is read.
        name = getattr(loaded, "__dict__", {}).get("__file__")
        own = module.split(".")[0] == "kernbench"
        if own or not isinstance(name, str) or "site-packages" in name or "dist-packages" in name:
            continue
        name = os.path.abspath(name)
        inside = name.startswith(folder + os.sep)
        if name == os.path.abspath(path) or not os.path.isfile(name) or not inside and name.startswith(library):
            continue
        found[os.path.relpath(name, folder) if inside else module] = name
    return found


def _local_modules(path: str) -> Dict[str, str]:
    """The SHA-256 sums of the user's own modules. Changing them changes what is measured."""
    found = {}
    for name, file in _module_files(path).items():
        with open(file, "rb") as f:
            found[name] = hashlib.sha256(f.read()).hexdigest()
    return found


def _files(path: str) -> Dict[str, str]:
    """The paths of the user's own modules and of the files of bench.inputs. kernbench hashes them,
    and checks during a run that they do not change."""
    folder = os.path.dirname(os.path.abspath(path))
    found = _module_files(path)
    for pattern in bench.patterns:
        matching = [name for name in glob.glob(os.path.join(folder, pattern), recursive=True) if os.path.isfile(name)]
        if not matching:
            raise FileNotFoundError("bench.inputs: no file matches %r in %s" % (pattern, folder))
        for name in sorted(matching):
            found[os.path.relpath(name, folder)] = os.path.abspath(name)
    return found


def _version() -> str:
    """The versions of the interpreter and of the libraries that were imported."""
    parts = ["Python " + sys.version.split()[0]]
    for name in ("torch", "triton", "jax", "cupy", "numpy", "iris"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            parts.append("%s %s" % (name, version))
    return ", ".join(parts)


def _calibrate() -> dict:
    """The shortest time between two readings of the clock, and its smallest step, in nanoseconds."""
    now = time.perf_counter_ns
    readings = [now() for _ in range(4096)]
    steps = [b - a for a, b in zip(readings, readings[1:])]
    return {"overhead": max(0, min(steps)), "resolution": min((s for s in steps if s > 0), default=0)}


def _main(path: str) -> None:
    faulthandler.enable()
    faulthandler.register(signal.SIGQUIT, all_threads=True)  # kernbench requests the stacks of a hang
    link = _Link(int(os.environ.pop(SOCKET)))
    server = _Server(link, path)
    server.serve()
    dist = sys.modules.get("torch.distributed")
    if server.joined and dist is not None and dist.is_initialized():
        server.state = None  # NCCL waits for graphs that use it
        gc.collect()
        dist.destroy_process_group()
