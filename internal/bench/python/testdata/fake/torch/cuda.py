import time
from contextlib import contextmanager


class Stream:
    def __init__(self):
        self.at = 0.0  # microseconds of the device's time

    def wait_stream(self, other):
        self.at = max(self.at, other.at)


_default = Stream()
_current = [_default]
_capturing = []
log = []  # events, for the tests


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


def work(us, on=None):
    """Starts a kernel of this duration."""
    if _capturing:
        _capturing[-1].append(us)
        return
    log.append("work")
    s = on or current_stream()
    s.at += us
    _slow[0] += us if on else 0


_slow = [0.0]


def synchronize(device=None):
    log.append("wait %d" % (_device[0] if device is None else device))
    if _slow[0]:  # work on another stream takes real time, which only the host sees
        time.sleep(_slow[0] / 1e6)
        _slow[0] = 0.0


class Event:
    def __init__(self, enable_timing=False):
        assert enable_timing

    def record(self):
        self.at = current_stream().at

    def elapsed_time(self, end):
        return (end.at - self.at) / 1e3


class CUDAGraph:
    def __init__(self):
        self.kernels = []

    def replay(self):
        log.append("replay %d" % len(self.kernels))
        current_stream().at += sum(self.kernels) / 2  # a graph is twice as fast as its calls


@contextmanager
def graph(g):
    _capturing.append(g.kernels)
    yield
    _capturing.pop()
