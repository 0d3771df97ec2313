"""The timers of state.exec: wall, events and graph.

events and graph time calls on the GPU by itself: a delay kernel holds the stream while the host queues
the first calls behind it. A sample counts if the GPU has not reached its start when its end has been
queued: then the GPU did not wait for the host in between, and launches are not part of the time. Other
samples are taken again, behind a longer delay if most of them were late.
"""

import sys
import time
import types
from typing import Any, Callable, Dict, List, Optional

from kernbench import _device


class Wall:
    """Times calls by the host's clock, until the work that they start has finished."""

    name = "wall"

    def __init__(self, call: Callable, preamble: Optional[Callable] = None, sync: Optional[Callable] = None,
                 cold: bool = False, single_rank: bool = True) -> None:
        self.call, self.preamble, self.sync = call, preamble, sync
        self.cold = cold  # the GPU's cache is flushed before each call
        self.single_rank = single_rank  # there are no other ranks, which would have to make the same calls
        self.wait: Optional[Callable] = sync  # waits for the device
        self.ready: Optional[Callable] = None  # waits for a list of results of calls
        self.device = _device.find() if cold else None
        if cold and self.device is None:
            raise RuntimeError("cache=\"cold\" flushes the cache of a GPU: it needs torch or CuPy, and a GPU")
        self.warm = False
        self.prepared = False
        self.warning = ""  # about the samples, for the row

    def clock(self) -> Optional[dict]:
        """The clock, if it differs from the one in the greeting."""
        return None

    def settle(self) -> None:
        wait = self.wait or device_sync()
        if wait is not None:
            wait()

    def prepare(self) -> None:
        """Runs the preamble, unless a request has just done so, and flushes the cache."""
        if self.preamble is not None and not self.prepared:
            self.preamble()
            self.settle()
        self.prepared = False
        if self.cold:
            self.device.flush()
            self.settle()

    def once(self) -> None:
        """One untimed call, which finds out what a sample must wait for, so that samples include the
        work and not only its launch."""
        self.prepared = False
        result = ran(self.call())
        self.wait = self.sync or device_sync()
        if self.sync is None:
            self.ready = self.waiter(result)
        self.finish([result])
        self.warm = True

    def waiter(self, result: Any) -> Optional[Callable]:
        """Returns the function that waits for results like this one."""
        jax = sys.modules.get("jax")
        if is_work(result):
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
    """Times calls by events that the GPU records in its stream, with the host ahead of it."""

    name = "events"
    resolution = 500  # nanoseconds, as CUDA documents it
    queued = 384  # launches behind one delay: the queue of a stream has room for about 1000
    attempts = 8  # without progress: the last delay is 128 times the first
    longest = 300_000_000  # nanoseconds of a delay

    def __init__(self, call: Callable, preamble: Optional[Callable] = None, sync: Optional[Callable] = None,
                 cold: bool = False, single_rank: bool = True) -> None:
        super().__init__(call, preamble, sync, cold, single_rank)
        self.device = self.device or _device.find()
        if self.device is None:
            raise RuntimeError("mode=\"%s\" needs torch or CuPy, and a GPU that it can use" % self.name)
        self.events: List[tuple] = []
        self.rate = 0.0  # cycles of the delay kernel per nanosecond
        self.empty = 0  # nanoseconds between two events with nothing in between
        self.host = self.busy = 0.0  # nanoseconds per sample: of the host to queue it, of the GPU to execute it
        self.batch = 0  # for which these are known
        self.delay_factor = 1  # how much longer than estimated the next delay is
        self.behind_delay = single_rank  # the samples come behind a delay
        self.after_preamble = False  # the delay comes after the preamble, before a single sample
        self.hidden = 0  # leading batches that took much longer than their events measured
        self.total = self.late = 0  # samples, and those before which the GPU waited for the host

    def clock(self) -> Optional[dict]:
        return {"name": "%s %s" % (self.device.kind, self.name), "overhead": 0, "resolution": self.resolution,
                "device": True}

    def settle(self) -> None:
        """Does nothing: the stream runs the preamble before the call without waiting."""

    def run(self, batch: int) -> None:
        for work in [r for r in (self.call() for _ in range(batch)) if is_work(ran(r))]:
            work.wait()  # makes the current stream wait

    def launches(self, batch: int) -> int:
        """How many entries one sample has in the stream's queue, if a call is one kernel."""
        return batch + 2 + (self.preamble is not None) + self.cold

    def once(self) -> None:
        self.prepared = False
        self.run(1)
        self.device.synchronize()

    def sample(self, count: int, batch: int) -> List[int]:
        if not self.warm:
            self.prepare()
            self.once()
            self.calibrate()
            self.warm = True
        if batch != self.batch:
            self.host *= self.launches(batch) / self.launches(self.batch or 1)
            self.batch, self.busy = batch, 0.0
        if self.single_rank:
            times = self.retried(count, batch)
        else:
            times = self.once_each(count, batch)
        self.warning = ""
        if self.late:
            self.warning = ("the host was not ahead of the GPU in %s, so times include launches"
                            % ("any sample" if self.late == self.total else "some samples"))
        return times

    def retried(self, count: int, batch: int) -> List[int]:
        """Takes late samples again, until no delay is long enough, because the call itself waits."""
        times: List[int] = []
        failures = 0
        while len(times) < count:
            some = self.attempt(self.fitting(count - len(times), batch), batch)
            ahead = [t for t, late in some if not late]
            if not self.behind_delay:
                times += [t for t, _ in some]
                self.late += len(some)
            elif 2 * len(ahead) >= len(some):
                times += ahead
                self.delay_factor, failures = 1, 0
            else:
                times += ahead
                self.delay_factor, failures = 2 * self.delay_factor, failures + 1
            if failures == self.attempts:
                # The preamble may wait for the GPU: put the delay behind it. If that fails too, the call waits.
                self.behind_delay, self.after_preamble = not self.after_preamble, True
                self.delay_factor, failures = 1, 0
        self.total += count
        return times

    def once_each(self, count: int, batch: int) -> List[int]:
        """Takes each sample once, because other ranks would wait for calls that only this one repeats.
        Ranks that meet before each sample must not be delayed by different times."""
        if count > 1 and not self.behind_delay:
            self.total = self.late = 0  # the warm-up starts with one sample
        self.behind_delay = count > 1
        some: List[tuple] = []
        most = max(1, self.queued // self.launches(batch))
        while len(some) < count:
            some += self.attempt(min(count - len(some), most), batch)
        late = sum(late for _, late in some)
        self.delay_factor = min(2 * self.delay_factor, 64) if 2 * late > count else 1
        self.late += late
        self.total += count
        return [t for t, _ in some]

    def fitting(self, count: int, batch: int) -> int:
        """How many samples to queue behind one delay."""
        return 1 if self.after_preamble else min(count, max(1, self.queued // self.launches(batch)))

    def delay(self, samples: int) -> int:
        """The cycles of a delay. It lasts until all samples are queued: launches that arrive while a kernel
        runs change its time by up to half a microsecond. Long kernels do not notice, and idle time before
        them would let the GPU raise its clock, so that they start when the first sample is queued."""
        lag = self.host * samples
        if self.busy > 10 * self.host:
            lag = self.host
        return int(min((1.5 * lag + 30_000) * self.delay_factor, self.longest) * self.rate)

    def calibrate(self) -> None:
        """Measures the delay kernel, an empty pair of events, and the host's time for a launch. It makes
        one call."""
        device, cycles = self.device, 200_000
        a, b = self.pairs(1)[0]
        for _ in range(2):  # the first one loads the kernel
            a.record()
            device.spin(cycles)
            b.record()
            device.synchronize()
        self.rate = max(cycles / max(device.elapsed(a, b), 1), 1e-3)
        device.spin(cycles)
        a.record()
        b.record()
        device.synchronize()
        self.empty = device.elapsed(a, b)
        self.prepare()
        start = time.perf_counter_ns()
        a.record()
        self.run(1)
        b.record()
        self.host = max(time.perf_counter_ns() - start, 5000)
        device.synchronize()

    def pairs(self, n: int) -> List[tuple]:
        while len(self.events) < n:
            self.events.append((self.device.event(), self.device.event()))
        return self.events[:n]

    def attempt(self, samples: int, batch: int) -> List[tuple]:
        """Queues samples behind a delay. It returns the time of each, and whether the host was late."""
        device, pairs, now = self.device, self.pairs(samples + 1), time.perf_counter_ns
        first, gate = pairs.pop()
        if self.after_preamble:
            self.prepare()
        device.synchronize()
        late = [not self.behind_delay] * samples
        start = now()
        first.record()
        if self.behind_delay:
            device.spin(self.delay(samples))
        gate.record()
        if self.behind_delay and not self.single_rank:
            self.prepare()
            self.run(1)  # delays end at different times on the ranks: meet before the first sample
        for i, (a, b) in enumerate(pairs):
            if not self.after_preamble:
                self.prepare()
            a.record()
            self.run(batch)
            b.record()
            late[i] = late[i] or device.reached(a)
        took = now() - start
        device.synchronize()
        wall = now() - start
        times = [device.elapsed(a, b) for a, b in pairs]
        if not any(late):
            self.host = min(took / samples, 1.1 * self.host)  # a full queue makes the host wait for the GPU
            self.busy = device.elapsed(gate, pairs[-1][1]) / samples
        elif self.behind_delay:
            self.host = max(self.host, min(took / samples, 2 * self.host))
        self.compare(wall, device.elapsed(first, pairs[-1][1]), min(times) - self.empty < 100 * batch, not any(late))
        return list(zip(times, late))

    def compare(self, wall: int, seen: int, nothing: bool, ahead: bool) -> None:
        """Fails if the events miss work, because the call uses a stream for which the current one does
        not wait; then only its launch would be timed. nothing means that the stream had less than 100 ns
        of work per call, a tenth of the shortest kernels. Occasional delays of the host are tolerated.
        This makes no calls of its own, because all ranks must make equally many."""
        nothing = nothing and ahead
        if self.hidden >= 0 and (nothing or wall > 4 * seen + 200_000):
            self.hidden += 1
        elif ahead:
            self.hidden = -1  # checked: no hidden work
        if self.hidden == 4:
            raise RuntimeError("the events saw %d µs of %d µs: have the current stream wait for the stream that the "
                               "call uses, or take mode=\"wall\"" % (0 if nothing else seen // 1000, wall // 1000))


class Graph(Events):
    """Times replays of a CUDA graph that holds all calls of a sample."""

    name = "graph"
    resolution = 10_000  # a bound for what a replay adds: a sample is 100 times as long
    max_calls = 2000  # in one graph

    def __init__(self, call: Callable, preamble: Optional[Callable] = None, sync: Optional[Callable] = None,
                 cold: bool = False, single_rank: bool = True) -> None:
        if cold:
            raise ValueError("mode=\"graph\" times calls with a warm cache; cache=\"cold\" is for mode=\"events\"")
        super().__init__(call, preamble, sync, cold, single_rank)
        self.graphs: Dict[int, Callable] = {}
        self.replay_time = 0  # shortest time of a replay with one call

    def parts(self, batch: int) -> List[int]:
        """The numbers of calls of the graphs that make a batch."""
        full, rest = divmod(batch, self.max_calls)
        return [self.max_calls] * full + [rest] * (rest > 0)

    def launches(self, batch: int) -> int:
        return 2 + len(self.parts(batch)) + (self.preamble is not None)

    def replay(self, calls: int) -> Callable:
        if calls not in self.graphs:
            self.graphs[calls] = self.device.capture(super().run, calls)
        return self.graphs[calls]

    def run(self, batch: int) -> None:
        for calls in self.parts(batch):
            self.replay(calls)()

    def once(self) -> None:
        if 1 not in self.graphs:
            self.replay(1)
            if self.preamble is not None:  # the call before the capture has used up its data
                self.preamble()
        super().once()

    def sample(self, count: int, batch: int) -> List[int]:
        for calls in {1, *self.parts(batch)}:
            if calls not in self.graphs:
                self.prepare()
                self.replay(calls)()
        times = super().sample(count, batch)
        self.check(sorted(times)[len(times) // 2], min(times), batch)
        return times

    def check(self, median: int, shortest: int, batch: int) -> None:
        """Warns if replaying takes more than 1 % of a sample."""
        if batch == 1:
            self.replay_time = min(self.replay_time or shortest, shortest)
            if self.preamble is not None and median < 100 * 2000:
                self.warning = self.warning or ("with a preamble each graph holds one call, so a time includes the "
                                                "start of a graph, about 2 µs")
            return
        share = (self.replay_time - median / batch) * len(self.parts(batch)) / median
        if self.replay_time and share > 0.01:
            self.warning = self.warning or "starting the graphs takes %.1f %% of the time" % (100 * share)


MODES = {"wall": Wall, "events": Events, "graph": Graph}


def ran(result: Any) -> Any:
    """Rejects lazy results of a call, such as coroutines: the call would not have done the work."""
    if isinstance(result, (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType)):
        raise TypeError("the timed function returns a %s, which has not run yet" % type(result).__name__)
    return result


def is_work(result: Any) -> bool:
    """Whether this is the result of an asynchronous collective of torch."""
    return hasattr(result, "wait") and hasattr(result, "is_completed")


def device_sync() -> Optional[Callable]:
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
