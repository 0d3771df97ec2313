"""do_bench and perf_report with the arguments of triton.testing, measured and recorded by kernbench."""

import os
import statistics
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from kernbench import _live, _notebook


def do_bench(fn: Callable[[], Any], warmup: float = 25, rep: float = 100, grad_to_none: Optional[Sequence[Any]] = None,
             quantiles: Optional[Sequence[float]] = None, return_mode: str = "mean", *, name: str = "", out: str = "",
             mode: str = "", cache: str = "") -> Union[float, List[float]]:
    """Returns the time of fn() in milliseconds, as triton.testing.do_bench does: by events of the GPU with a
    cold cache. Without a GPU it is the wall clock. It samples for at least rep milliseconds and until the
    median is known to 1 %. kernbench warms up until calls no longer become faster, whatever warmup says.
    The rows of one process are one run in the folder out (out/do_bench), under the names of the functions."""
    if return_mode not in ("min", "max", "mean", "median", "all"):
        raise ValueError("return_mode=%r: want min, max, mean, median or all" % return_mode)
    preamble: Optional[Callable] = None
    if grad_to_none is not None:
        tensors = list(grad_to_none)

        def preamble() -> None:
            for x in tensors:
                x.grad = None

    mode = mode or _notebook.default_mode()
    how = dict(mode=mode, cache=cache or ("cold" if mode == "events" else ""), preamble=preamble)
    if _live.current:
        times = _live.current[-1].time_now(fn, **how)
    else:
        flags = ["--quiet", "--remeasure", "0", "--min-time", "%dms" % max(1, round(rep))]
        session = _recorded(fn, name or _live.name_of(fn), out or os.path.join("out", "do_bench"), flags, how)
        session.run()
        times = session.samples[-session.good_row()["samples"]:]
    return _summary([ns / 1e6 for ns in times], quantiles, return_mode)


_recorded_names: Dict[str, List[str]] = {}  # by folder: the names of the rows of this process


def _recorded(fn: Callable, name: str, out: str, flags: List[str], how: Dict[str, Any]) -> _live.Session:
    """A session that adds a row to the run of this process in a folder. Names that come again are numbered."""
    names = _recorded_names.setdefault(os.path.abspath(out), [])
    unique = name if name not in names else "%s #%d" % (name, 1 + sum(n.split(" #")[0] == name for n in names))
    if names:
        flags = flags + ["--resume"]
    names.append(unique)

    def body(state: Any, ctx: Any) -> None:
        _live.add_source(state, fn)
        state.exec(fn, **how)

    return _live.Session(_live.declare("do_bench", body, {"function": [unique]}), _live.ADDED, out, flags)


def _summary(times: List[float], quantiles: Optional[Sequence[float]], return_mode: str) -> Union[float, List[float]]:
    if quantiles is not None:
        found = [_quantile(sorted(times), q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    if return_mode == "all":
        return times
    return {"min": min, "max": max, "mean": statistics.fmean, "median": statistics.median}[return_mode](times)


def _quantile(ordered: List[float], q: float) -> float:
    """Interpolates between the two nearest values, as torch.quantile does."""
    at = q * (len(ordered) - 1)
    low = min(int(at), len(ordered) - 2) if len(ordered) > 1 else 0
    return ordered[low] + (at - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


class Benchmark:
    """The arguments of triton.testing.Benchmark."""

    def __init__(self, x_names: List[str], x_vals: List[Any], line_arg: str, line_vals: List[Any],
                 line_names: List[str], plot_name: str, args: Dict[str, Any], xlabel: str = "", ylabel: str = "",
                 x_log: bool = False, y_log: bool = False, styles: Any = None) -> None:
        self.x_names, self.x_vals = x_names, x_vals
        self.line_arg, self.line_vals, self.line_names = line_arg, line_vals, line_names
        self.plot_name, self.args = plot_name, args
        self.xlabel, self.ylabel, self.x_log, self.y_log, self.styles = xlabel, ylabel, x_log, y_log, styles


class Mark:
    """A function with its benchmarks."""

    def __init__(self, fn: Callable, benchmarks: Any) -> None:
        self.fn = fn
        self.benchmarks = benchmarks if isinstance(benchmarks, (list, tuple)) else [benchmarks]

    def run(self, show_plots: bool = False, print_data: bool = False, save_path: str = "", return_df: bool = False,
            **kwargs: Any) -> Any:
        """Measures all points, and draws them. The run and its figures are in save_path/PLOT_NAME, or
        out/PLOT_NAME without save_path. return_df returns the frame, or a list of frames."""
        frames = [self.measure(b, save_path, show_plots, print_data, kwargs) for b in self.benchmarks]
        if not return_df:
            return None
        return frames[0] if len(frames) == 1 else frames

    def measure(self, b: Any, save_path: str, show_plots: bool, print_data: bool, kwargs: Dict[str, Any]) -> Any:
        names = dict(zip(map(_live.kernbench._text, b.line_vals), b.line_names))
        x_name, metric = b.x_names[0], _live.name_of_text(b.ylabel or "value")

        def body(state: Any, ctx: Any) -> None:
            x = state[x_name]
            several = isinstance(x, (tuple, list)) and len(b.x_names) > 1
            point = dict(zip(b.x_names, x)) if several else dict.fromkeys(b.x_names, x)
            value = self.fn(**point, **{b.line_arg: lines[state[b.line_arg]]}, **b.args, **kwargs)
            middle, *rest = value if isinstance(value, (tuple, list)) else (value,)
            state.counter(metric, float(middle), b.ylabel)
            for suffix, bound in zip(("low", "high"), rest):
                if bound is not None:
                    state.counter("%s_%s" % (metric, suffix), float(bound), b.ylabel)

        lines = {names[_live.kernbench._text(v)]: v for v in b.line_vals}
        body.__doc__ = self.fn.__doc__
        out = os.path.join(save_path or "out", b.plot_name)
        axes = {x_name: b.x_vals, b.line_arg: list(lines)}
        plot = "x=%s,y=%s,by=%s" % (x_name, metric, b.line_arg)
        declaration = _live.declare(_live.name_of_text(b.plot_name), body, axes)
        declaration.metrics.append({"name": metric, "unit": b.ylabel, "better": ""})
        session = _live.Session(declaration, _live.source_of(self.fn), out,
                                ["--remeasure", "0", "--plot", plot], progress=True)
        if session.run() and session.raised is not None:
            raise session.raised
        result = _notebook.frame(table(session.rows(), x_name, b.line_arg, list(lines), metric), out)
        if show_plots:
            _notebook._display(result)
        if print_data:
            print(b.plot_name + ":")
            print(result if hasattr(result, "columns") else "\n".join(map(str, result)))
        return result


def table(rows: List[Dict[str, Any]], x_name: str, line_arg: str, lines: List[str],
          metric: str) -> List[Dict[str, Any]]:
    """One dict per value of x, with a key for each line."""
    found: Dict[Any, Dict[str, Any]] = {}
    for r in rows:
        x = r["point"][x_name]
        row = found.setdefault(x, {x_name: x, **dict.fromkeys(lines)})
        row[r["point"][line_arg]] = r.get("metrics", {}).get(metric)
    return list(found.values())


def perf_report(benchmarks: Any) -> Callable[[Callable], Mark]:
    """Decorates a function as triton.testing.perf_report does. Benchmark objects of Triton work too. Where the
    function calls kernbench.do_bench, the rows also have its time."""
    return lambda fn: Mark(fn, benchmarks)
