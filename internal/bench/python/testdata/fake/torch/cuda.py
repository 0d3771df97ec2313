"""A GPU in real time: work has a duration, each stream has its own queue, and the host spends time on
every launch. Times are nanoseconds of the host's clock; events return them exactly."""

import time
from contextlib import contextmanager

LAUNCH = 20_000  # the host's time for a launch
REPLAY = 2  # microseconds that starting a graph adds

_streams = []


class Stream:
    def __init__(self):
        self.at = 0  # when its last work ends
        _streams.append(self)

    def wait_stream(self, other):
        self.at = max(self.at, other.at)


_default = Stream()
_current = [_default]
_capturing = []
log = []  # events, for the tests
flushed = [False]


def is_available():
    return True


is_initialized = is_available


def device_count():
    return 2


_device = [0]
reserved = [0, 0]


def set_device(d):
    _device[0] = d


def current_device():
    return _device[0]


def memory_reserved(d):
    return reserved[d]


def current_stream():
    return _current[-1]


@contextmanager
def stream(s):
    _current.append(s)
    yield
    _current.pop()


def _queue(us, on=None):
    s = on or current_stream()
    s.at = max(s.at, time.perf_counter_ns()) + round(1000 * us)


def _launch():
    end = time.perf_counter_ns() + LAUNCH
    while time.perf_counter_ns() < end:
        pass


def work(us, on=None):
    """Starts a kernel of this duration, and of 3 us more if the cache has been flushed."""
    us += 3 * flushed[0]
    flushed[0] = False
    if _capturing:
        _capturing[-1].append(us)
        return
    log.append("work")
    _launch()
    _queue(us, on)


def _sleep(cycles):
    _queue(cycles / 2000)


def synchronize(device=None):
    log.append("wait %d" % (_device[0] if device is None else device))
    while time.perf_counter_ns() < max(s.at for s in _streams):
        time.sleep(2e-6)


class Event:
    def __init__(self, enable_timing=False):
        assert enable_timing

    def record(self):
        self.at = max(current_stream().at, time.perf_counter_ns())

    def query(self):
        return time.perf_counter_ns() >= self.at

    def elapsed_time(self, end):
        return (end.at - self.at) / 1e6


class CUDAGraph:
    def __init__(self):
        self.kernels = []

    def replay(self):
        log.append("replay %d" % len(self.kernels))
        _launch()
        _queue(REPLAY + sum(self.kernels) / 2)  # a graph is twice as fast as its calls


@contextmanager
def graph(g):
    _capturing.append(g.kernels)
    yield
    _capturing.pop()
