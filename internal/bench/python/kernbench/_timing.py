"""The clocks of state.exec: wall, events and graph."""

import sys
import time
import types
from typing import Any, Callable, Dict, List, Optional


class Wall:
    """Times calls by the host's clock, until the work that they start has finished."""

    def __init__(self, call: Callable, preamble: Optional[Callable], sync: Optional[Callable]) -> None:
        self.call, self.preamble, self.sync = call, preamble, sync
        self.wait: Optional[Callable] = sync  # waits for the device
        self.ready: Optional[Callable] = None  # waits for a list of results of calls
        self.warm = False
        self.prepared = False

    def clock(self) -> Optional[dict]:
        """The clock, if it differs from the one in the greeting."""
        return None

    def settle(self) -> None:
        wait = self.wait or _device_sync()
        if wait is not None:
            wait()

    def prepare(self) -> None:
        if self.preamble is not None and not self.prepared:
            self.preamble()
            self.settle()
        self.prepared = False

    def once(self) -> None:
        """One untimed call, which finds out what a sample must wait for, so that samples include the
        work and not only its launch."""
        self.prepared = False
        result = _ran(self.call())
        self.wait = self.sync or _device_sync()
        if self.sync is None:
            self.ready = self.waiter(result)
        self.finish([result])
        self.warm = True

    def waiter(self, result: Any) -> Optional[Callable]:
        """Returns the function that waits for results like this one."""
        jax = sys.modules.get("jax")
        if _is_work(result):
            return lambda results: [r.wait() for r in results]
        if jax is None:
            return None
        if result is None and self.wait is None:
            raise TypeError("jax computes in the background: have the timed function return what it computes, or give "
                            "state.exec a sync")
        return jax.block_until_ready

    def finish(self, results: List[Any]) -> None:
        if self.ready is not None:
            self.ready(results)
        if self.wait is not None:
            self.wait()

    def sample(self, count: int, batch: int) -> List[int]:
        """Takes samples of batch calls each, in nanoseconds."""
        if not self.warm:
            self.prepare()
            self.once()
        call, wait, keep, now = self.call, self.wait, self.ready is not None, time.perf_counter_ns
        times, calls = [0] * count, range(batch)
        for i in range(count):
            self.prepare()
            start = now()
            if keep:
                self.finish([call() for _ in calls])
            else:
                for _ in calls:
                    call()
                if wait is not None:
                    wait()
            times[i] = now() - start
        return times


class Events(Wall):
    """Times calls by events that the GPU records in its stream. The host runs ahead of the GPU, so the
    launch time is hidden unless it is longer than the work."""

    name = "events"
    pairs = 64  # of events in flight together

    def __init__(self, call: Callable, preamble: Optional[Callable], sync: Optional[Callable]) -> None:
        super().__init__(call, preamble, sync)
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_available():
            raise RuntimeError("mode=\"%s\" needs torch and a GPU that it can use" % self.name)
        self.torch, self.cuda = torch, torch.cuda
        self.events: List[tuple] = []
        self.hidden = 0  # leading blocks of samples that took much longer than their events measured

    def clock(self) -> Optional[dict]:
        maker = "hip" if getattr(self.torch.version, "hip", None) else "cuda"
        return {"name": "%s %s" % (maker, self.name), "overhead": 0, "resolution": 500}  # as CUDA documents it

    def settle(self) -> None:
        """Does nothing: the stream runs the preamble before the call without waiting."""

    def run(self, batch: int) -> None:
        for work in [r for r in (self.call() for _ in range(batch)) if _is_work(_ran(r))]:
            work.wait()  # makes the current stream wait

    def once(self) -> None:
        self.prepared = False
        self.run(1)
        self.cuda.synchronize()

    def sample(self, count: int, batch: int) -> List[int]:
        if not self.warm:
            self.prepare()
            self.once()
            self.warm = True
        while len(self.events) <= min(count, self.pairs):
            self.events.append((self.cuda.Event(enable_timing=True), self.cuda.Event(enable_timing=True)))
        times: List[int] = []
        while len(times) < count:
            pairs = self.events[1:1 + count - len(times)]
            self.cuda.synchronize()
            start = time.perf_counter_ns()
            self.events[0][0].record()
            for pair in pairs:
                self.prepare()
                pair[0].record()
                self.run(batch)
                pair[1].record()
            self.cuda.synchronize()
            self.compare(time.perf_counter_ns() - start, _elapsed((self.events[0][0], pairs[-1][1])))
            times += [_elapsed(pair) for pair in pairs]
        return times

    def compare(self, wall: int, seen: int) -> None:
        """Fails if the events miss work, because the call uses a stream for which the current one does
        not wait; then only its launch would be timed. Occasional delays of the host are tolerated.
        This makes no calls of its own, because all ranks must make equally many."""
        if self.hidden >= 0 and wall > 4 * seen + 200000:
            self.hidden += 1
        else:
            self.hidden = -1  # checked: no hidden work
        if self.hidden == 4:
            raise RuntimeError("the events saw %d us of %d us: have the current stream wait for the stream that the call "
                               "uses, or take mode=\"wall\"" % (seen // 1000, wall // 1000))


class Graph(Events):
    """Times replays of the call as a CUDA graph, so that the host launches many calls at once."""

    name = "graph"
    most = 32  # calls in one graph

    def __init__(self, call: Callable, preamble: Optional[Callable], sync: Optional[Callable]) -> None:
        super().__init__(call, preamble, sync)
        self.graphs: Dict[int, Any] = {}

    def graph(self, calls: int) -> Any:
        if calls not in self.graphs:
            side = self.cuda.Stream()  # torch requires a call on a side stream before the capture
            side.wait_stream(self.cuda.current_stream())
            with self.cuda.stream(side):
                super().run(1)
            self.cuda.current_stream().wait_stream(side)
            self.cuda.synchronize()
            graph = self.cuda.CUDAGraph()
            with self.cuda.graph(graph):
                super().run(calls)
            self.graphs[calls] = graph
        return self.graphs[calls]

    def run(self, batch: int) -> None:
        calls = min(batch, self.most)
        for _ in range(batch // calls):
            self.graph(calls).replay()
        for _ in range(batch % calls):
            self.graph(1).replay()

    def once(self) -> None:
        if 1 not in self.graphs:
            self.graph(1)
            if self.preamble is not None:  # the call before the capture has used up its data
                self.preamble()
        super().once()

    def sample(self, count: int, batch: int) -> List[int]:
        for calls in {1, min(batch, self.most)}:
            if calls not in self.graphs:
                self.prepare()
                self.graph(calls)
                self.run(calls)
        return super().sample(count, batch)


MODES = {"wall": Wall, "events": Events, "graph": Graph}


def _elapsed(pair: tuple) -> int:
    return round(pair[0].elapsed_time(pair[1]) * 1e6)  # from milliseconds


def _ran(result: Any) -> Any:
    """Rejects lazy results of a call, such as coroutines: the call would not have done the work."""
    if isinstance(result, (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType)):
        raise TypeError("the timed function returns a %s, which has not run yet" % type(result).__name__)
    return result


def _is_work(result: Any) -> bool:
    """Whether this is the result of an asynchronous collective of torch."""
    return hasattr(result, "wait") and hasattr(result, "is_completed")


def _device_sync() -> Optional[Callable]:
    """Returns a function that waits for the GPUs of this process, or None if no library uses any."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and torch.cuda.is_initialized():
        cuda = torch.cuda
        others = [d for d in range(cuda.device_count()) if d != cuda.current_device() and cuda.memory_reserved(d)]
        if not others:
            return cuda.synchronize
        return lambda: [cuda.synchronize(d) for d in [cuda.current_device()] + others]
    if cupy is not None:
        return lambda: cupy.cuda.Device().synchronize()
    return None
