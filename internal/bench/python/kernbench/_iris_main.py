"""The command line of iris.bench: its flags, and its output as console, JSON and CSV."""

import argparse
import csv
import importlib.util
import io
import json
import os
import re
import statistics
import subprocess
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

import kernbench as core
from kernbench import _iris
from kernbench._iris import RANKS, BenchmarkDef, Flags, Result


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        description="iris.bench, run by kernbench", formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="--axis_NAME=VALUES replaces the values of an axis, and --skip_NAME=VALUES leaves some out. "
               "VALUES are 1024,2048, pow2:8:13, lin:64:256:64 or element types such as fp16,bf16.")
    p.add_argument("--benchmark_filter", default=None, metavar="REGEX", help="run only benchmarks whose name matches")
    p.add_argument("--benchmark_format", default="console", choices=["console", "json", "csv"], help="format of the output")
    p.add_argument("--benchmark_out", default=None, metavar="FILE", help="also write the output to this file")
    p.add_argument("--heap_size", type=int, default=_iris.HEAP, help="bytes of the symmetric heap of iris")
    p.add_argument("--use_gluon", action="store_true", help="use the Gluon context of iris")
    p.add_argument("--n_warmup", type=int, default=_iris.WARMUP, help="calls before the timing")
    p.add_argument("--n_repeat", type=int, default=_iris.REPEAT, help="timed calls")
    return p


def main(argv: Optional[List[str]]) -> None:
    p = parser()
    args, rest = p.parse_known_args(argv)
    chosen: Dict[str, Dict[str, str]] = {"axis": {}, "skip": {}}
    for word in rest:
        match = re.match(r"--(axis|skip)_(\w+)=(.+)$", word)
        if match is None:
            p.error("unrecognized argument: %s" % word)
        try:
            _iris.parse_values(match.group(3), match.group(2))
        except (ValueError, ImportError) as e:
            p.error(str(e))
        chosen[match.group(1)][match.group(2)] = match.group(3)
    if not _iris.registry:
        sys.exit("No benchmarks registered.")
    flags = Flags(chosen["axis"], chosen["skip"], args.benchmark_filter or "")
    joined = all(os.environ.get(name) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
    if joined:
        flags.world = _world(flags)
    selected = [b for b in _iris.registry if flags.selects(b)]
    if not selected:
        sys.exit("No benchmark configurations to run after applying filters and skips.")
    rows, failed = _run(selected, flags, args)
    if joined and os.environ["RANK"] != "0":
        if failed:
            sys.exit(failed)
        return
    results = _results(rows, selected, flags)
    text = {"console": console, "json": as_json, "csv": as_csv}[args.benchmark_format](results)
    print(text, end="", flush=True)
    if args.benchmark_out:
        with open(args.benchmark_out, "w", encoding="utf-8") as f:
            f.write(text)
    if failed:
        sys.exit(failed)


def _world(flags: Flags) -> int:
    """The number of ranks of the job that this process belongs to, which some benchmark must select."""
    world, first = int(os.environ["WORLD_SIZE"]), os.environ["RANK"] == "0"
    numbers = sorted({n for b in _iris.registry if flags.matches(b) for n in flags.ranks(b)})
    if world not in numbers:
        sys.exit("" if not first else "WORLD_SIZE is %d, but the benchmarks run on %s ranks: give --axis_num_ranks=%d, or "
                 "start as many processes" % (world, ", ".join(map(str, numbers)) or "no", world))
    others = [str(n) for n in numbers if n != world]
    if others and first:
        print("Warning: WORLD_SIZE is %d, so num_ranks %s are left out" % (world, ", ".join(others)), file=sys.stderr)
    return world


def _run(selected: List[BenchmarkDef], flags: Flags, args: argparse.Namespace) -> Tuple[List[dict], int]:
    """Runs the benchmarks by kernbench. Returns their rows, with the samples of each rank, and the exit
    status."""
    script = os.path.abspath(getattr(sys.modules["__main__"], "__file__", sys.argv[0]))
    out = os.path.join("out", os.path.splitext(os.path.basename(script))[0])
    command = [core._binary_or_exit(), "run", "-f", script, "--format", "jsonl", "--out", out,
               "--import-timeout=10m"]  # iris.bench has no limit
    for name in ("heap_size", "n_warmup", "n_repeat", "use_gluon"):
        value = getattr(args, name)
        if value != parser().get_default(name):
            command.append("--%s=%s" % (name, core._text(value)))
    environ = dict(os.environ, KERNBENCH_PYTHON=sys.executable)
    environ[_iris.FLAGS] = flags.text()
    run = subprocess.Popen(command, stdout=subprocess.PIPE, env=environ, encoding="utf-8")
    while True:
        try:
            printed = run.communicate()[0]
            break
        except KeyboardInterrupt:  # kernbench gets it too, and ends with the rows that it has
            continue
    rows = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    for row in rows:
        folder = os.path.join(out, row["bench"]) if len(selected) > 1 else out
        row["times"] = _samples(os.path.join(folder, "samples", row["raw"])) if row.get("raw") else []
    return rows, run.returncode


def _samples(path: str) -> List[List[float]]:
    """Reads a file of samples: for each rank, its times in milliseconds (docs/journal-schema.md)."""
    with open(path, "rb") as f:
        data = f.read()
    if data[:5] != b"KBSM\x01":
        raise ValueError("%s is not a file of samples" % path)
    numbers, at = [], 5
    while at < len(data):  # unsigned numbers of 7 bits a byte, the lowest first
        number, shift = 0, 0
        while True:
            byte = data[at]
            number |= (byte & 127) << shift
            shift, at = shift + 7, at + 1
            if byte < 128:
                break
        numbers.append(number)
    ranks, last = numbers[1], [0] * numbers[1]
    times: List[List[float]] = [[] for _ in range(ranks)]
    for i, coded in enumerate(numbers[2:]):
        rank = i % ranks
        last[rank] += coded >> 1 if coded % 2 == 0 else -((coded + 1) >> 1)
        times[rank].append(last[rank] / 1e9)
    return times


def _results(rows: List[dict], selected: List[BenchmarkDef], flags: Flags) -> List[Result]:
    """The results in the order of iris.bench: by ranks, environment, benchmark, and combination."""
    order = {b.recorded: i for i, b in enumerate(selected)}
    env = lambda row: [(k, v or "") for k, v in sorted(row.get("env", {}).items())]  # noqa: E731
    rows = [r for r in rows if r["bench"] in order]
    rows.sort(key=lambda r: (r["num_ranks"], env(r), order[r["bench"]], r.get("index", 0)))
    return [_result(row, selected[order[row["bench"]]], flags) for row in rows]


def _result(row: dict, b: BenchmarkDef, flags: Flags) -> Result:
    params: Dict[str, Any] = {RANKS: row["num_ranks"]} if flags.shows_ranks(b) else {}
    params.update(row.get("env", {}))
    for a in b.axes:
        if a.name != RANKS:
            value = row["point"].get(a.name, row["point"].get("axis." + a.name))
            params[a.name] = next((v for v in flags.values(a) if _is(v, value)), value)
    r = Result(b.name, params, 0.0, [], world_size=row["num_ranks"])
    metrics, details = row["metrics"], row.get("details", {})
    if row["status"] != "ok":
        reason = row.get("reason", "")
        r.skipped, r.failed = True, row["status"] != "skipped"
        r.skip_reason = "failed: " + reason if r.failed else reason
        return r
    medians = [statistics.median(times) for times in row["times"]] or [metrics["time_us"] / 1e3]
    r.gpu_time_ms, r.min_time_ms = max(medians), min(medians)
    r.all_times_ms = row["times"][0] if row["times"] else medians
    r.skew_pct = (r.gpu_time_ms - r.min_time_ms) / r.gpu_time_ms * 100 if r.gpu_time_ms > 0 else 0.0
    ratio = metrics["time_us"] / 1e3 / r.gpu_time_ms if r.gpu_time_ms > 0 else 1.0
    if "gbps" in metrics or "bytes" in details:
        r.bandwidth_gbps = metrics.get("gbps", 0.0) * ratio
    if "tflops" in metrics:
        r.tflops = metrics["tflops"] * ratio
    for name in json.loads(details.get("counters", "[]")):
        r.counters[name[len("counter."):] if name.startswith("counter.") else name] = metrics[name]
    return r


def _is(value: Any, recorded: Any) -> bool:
    """Whether a recorded value of a row stands for this declared value."""
    if isinstance(recorded, bool) or isinstance(value, bool) or not isinstance(value, (int, float)):
        return core._text(core._plain(value)) == core._text(recorded)
    return value == recorded


def text_of(value: Any) -> str:
    return str(value).replace("torch.", "") if type(value).__module__ == "torch" else str(value)


def _has_skew() -> bool:
    """Whether the installed iris reports the skew between ranks; its older versions do not."""
    try:
        spec = importlib.util.find_spec("iris") if _iris._installed() else None
        with open(os.path.join(os.path.dirname(spec.origin), "bench", "_core.py"), encoding="utf-8") as f:
            return "skew_pct" in f.read()
    except (AttributeError, TypeError, ValueError, OSError):
        return False


def _names(results: List[Result], of: Callable[[Result], Dict[str, Any]]) -> List[str]:
    """The names of parameters or counters, in the order of their first use."""
    return list(dict.fromkeys(name for r in results for name in of(r)))


def console(results: List[Result]) -> str:
    tables = []
    for name in dict.fromkeys(r.benchmark_name for r in results):
        tables.append("\n%s\n%s" % (name, _table([r for r in results if r.benchmark_name == name])))
    return "".join(tables)


def _table(results: List[Result]) -> str:
    params = list(results[0].params)

    def optional(form: str, value: Optional[float], absent: str = "") -> str:
        return absent if value is None else form % value

    columns: List[Tuple[str, Callable[[Result], str]]] = [
        (p, lambda r, p=p: text_of(r.params.get(p, ""))) for p in params]  # type: ignore[misc]
    columns.append(("GPU Time (ms)", lambda r: "%.3f" % r.gpu_time_ms))
    if _has_skew():
        columns.append(("Skew %", lambda r: optional("%.1f", r.skew_pct, "-")))
    if any(r.bandwidth_gbps is not None for r in results):
        columns.append(("BW (GB/s)", lambda r: optional("%.1f", r.bandwidth_gbps)))
    if any(r.tflops is not None for r in results):
        columns.append(("TFLOPS", lambda r: optional("%.1f", r.tflops)))
    for c in _names(results, lambda r: r.counters):
        columns.append((c, lambda r, c=c: optional("%.3f", r.counters.get(c))))  # type: ignore[misc]
    lines = [[heading for heading, _ in columns]]
    for r in results:
        line = [cell(r) for _, cell in columns]
        if r.skipped:
            status = r.skip_reason.replace("failed: ", "(failed) ", 1) if r.failed else ("(skipped) " + r.skip_reason).rstrip()
            line = ([line[0]] if params else []) + [status]
            line += [""] * (len(columns) - len(line))
        lines.append(line)
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths)) + "\n" for line in lines)


def as_json(results: List[Result]) -> str:
    skew = _has_skew()
    records = []
    for r in results:
        record: Dict[str, Any] = {"benchmark": r.benchmark_name, "world_size": r.world_size,
                                  "params": {k: text_of(v) for k, v in r.params.items()}, "gpu_time_ms": r.gpu_time_ms}
        if skew:
            record.update(min_time_ms=r.min_time_ms, skew_pct=r.skew_pct, local_times_ms=r.all_times_ms)
        else:
            record["all_times_ms"] = r.all_times_ms
        record.update({k: getattr(r, k) for k in ("bandwidth_gbps", "tflops") if getattr(r, k) is not None})
        if r.counters:
            record["counters"] = r.counters
        if r.skipped:
            record.update(skipped=True, skip_reason=r.skip_reason)
        records.append(record)
    return json.dumps(records, indent=2) + "\n"


def as_csv(results: List[Result]) -> str:
    if not results:
        return ""
    params, counters = _names(results, lambda r: r.params), _names(results, lambda r: r.counters)
    skew = [("min_time_ms", "%.4f"), ("skew_pct", "%.2f")] if _has_skew() else []
    numbers = [("gpu_time_ms", "%.4f")] + skew + [("bandwidth_gbps", "%.2f"), ("tflops", "%.2f")]
    text = io.StringIO()
    out = csv.writer(text)
    out.writerow(["benchmark", "world_size", *params, *(name for name, _ in numbers), *counters, "skipped", "skip_reason"])
    for r in results:
        cells: List[Any] = [r.benchmark_name, r.world_size] + [text_of(r.params.get(p, "")) for p in params]
        for name, form in numbers:
            value = getattr(r, name)
            cells.append("" if value is None or r.skipped else form % value)
        cells += ["%.4f" % r.counters[c] if c in r.counters else "" for c in counters]
        out.writerow(cells + [r.skipped, r.skip_reason])
    return text.getvalue()
