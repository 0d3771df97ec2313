"""kernbench.run: a sweep over a function of this process, as a frame that can draw itself."""

import glob
import inspect
import os
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence

import kernbench
from kernbench import _live


def run(fn: Callable, axes: Optional[Dict[str, Any]] = None, *, name: str = "", out: str = "", mode: str = "",
        cache: str = "", bytes: Any = None, flops: Any = None, trials: int = 1, resume: bool = False,
        flags: Sequence[str] = (), progress: bool = True) -> Any:
    """Times fn(**point) at all points of the axes and returns the rows as a frame: a pandas.DataFrame where
    pandas is installed, else a list of dicts. In a notebook its figure is drawn too.

    A function with the parameters (state, ctx) is a body, as in a file of benches: it prepares a point
    and calls state.exec. Others are timed as they are: by events with torch or CuPy and a GPU, else by the
    wall clock. bytes and flops of a call are numbers, or functions of the point. The rows are kept in
    the folder out (out/NAME), which all commands of kernbench read; flags are flags of `kernbench run`."""
    name = name or _live.name_of(fn)
    out = out or os.path.join("out", name)
    body = fn if _is_body(fn) else _timed(fn, mode or default_mode(), cache, bytes, flops)
    session = _live.Session(_live.declare(name, body, axes, trials=trials), _live.source_of(fn), out,
                            ["--resume"] * resume + list(flags), progress)
    failed = session.run()
    if failed and session.raised is not None and not progress:
        raise session.raised
    result = frame(kernbench._shown(out, "records"), out)
    if progress:
        _display(result)
    return result


def _is_body(fn: Callable) -> bool:
    try:
        return list(inspect.signature(fn).parameters)[:2] == ["state", "ctx"]
    except (TypeError, ValueError):  # a function of C has no signature
        return False


def _timed(fn: Callable, mode: str, cache: str, bytes: Any, flops: Any) -> Callable:
    def body(state: Any, ctx: Any) -> None:
        point = {k: v for k, v in state._values.items() if k != "num_ranks"}
        for amount, record in ((bytes, state.set_bytes), (flops, state.set_flops)):
            if amount is not None:
                record(amount(**point) if callable(amount) else amount)
        state.exec(lambda: fn(**point), mode=mode, cache=cache)

    body.__doc__ = fn.__doc__
    return body


def default_mode() -> str:
    """events with torch or CuPy and a GPU, else wall."""
    from kernbench._device import find

    return "wall" if find() is None else "events"


class _Picture:
    """Adds the figure of a run to its rows."""

    def _repr_png_(self) -> Optional[bytes]:
        """The PNG of the newest figure, which notebooks show."""
        found = sorted(glob.glob(os.path.join(glob.escape(self.run), "figures", "*.png")), key=os.path.getmtime)
        if not found:
            return None
        with open(found[-1], "rb") as f:
            return f.read()


class Rows(list, _Picture):  # type: ignore[type-arg]
    """Rows as dicts, where pandas is not installed."""

    run = ""


def frame(rows: List[Dict[str, Any]], run: str) -> Any:
    try:
        import pandas
    except ImportError:
        result = Rows(rows)
        result.run = run
        return result

    class Frame(pandas.DataFrame, _Picture):
        _metadata = ["run"]

        @property
        def _constructor(self) -> Any:
            return pandas.DataFrame  # a part of the frame has no figure

    result = Frame(rows)
    object.__setattr__(result, "run", run)
    return result


def _display(result: Any) -> None:
    """Draws the figure in a notebook."""
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        return
    png = result._repr_png_()
    if png is not None:
        from IPython.display import Image, display

        display(Image(data=png))
