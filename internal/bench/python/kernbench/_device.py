"""The GPU of torch or CuPy, as the timers see it: events, graphs, a delay and a flush of its cache."""

import sys
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Optional

FLUSH_BYTES = 256 << 20  # as much as triton.testing.do_bench writes; larger than the cache of any GPU so far


def find() -> Optional[Any]:
    """Returns the GPU that the libraries of this process use, or None."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and torch.cuda.is_available():
        return TorchDevice(torch)
    if cupy is not None and cupy.cuda.is_available():
        return CupyDevice(cupy)
    return None


class TorchDevice:
    """The current device of torch. Everything is queued on torch's current stream."""

    def __init__(self, torch: Any) -> None:
        self.torch, self.cuda = torch, torch.cuda
        self.kind = "hip" if getattr(torch.version, "hip", None) else "cuda"
        self.cache: Any = None

    def event(self) -> Any:
        return self.cuda.Event(enable_timing=True)

    def reached(self, event: Any) -> bool:
        """Whether the GPU has passed the event."""
        return event.query()

    def elapsed(self, start: Any, end: Any) -> int:
        """The nanoseconds between two events."""
        return round(start.elapsed_time(end) * 1e6)

    def synchronize(self) -> None:
        self.cuda.synchronize()

    def spin(self, cycles: int) -> None:
        """Queues a kernel that keeps the stream busy for that many cycles."""
        self.cuda._sleep(cycles)

    def flush(self) -> None:
        """Queues a write of more memory than the cache holds."""
        if self.cache is None:
            self.cache = self.torch.empty(FLUSH_BYTES // 4, dtype=self.torch.int, device="cuda")
        self.cache.zero_()

    def capture(self, run: Callable[[int], None], calls: int) -> Callable[[], None]:
        """Captures run(calls) as a graph, and returns the function that replays it."""
        side = self.cuda.Stream()  # torch requires a call on a side stream before the capture
        side.wait_stream(self.cuda.current_stream())
        with self.cuda.stream(side), self.shared():
            run(1)
        self.cuda.current_stream().wait_stream(side)
        self.cuda.synchronize()
        graph = self.cuda.CUDAGraph()
        with self.cuda.graph(graph), self.shared():
            run(calls)
        return graph.replay

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Has CuPy, if it is loaded, use torch's current stream, so that its kernels are captured too."""
        cupy = sys.modules.get("cupy")
        if cupy is None:
            yield
            return
        with cupy.cuda.ExternalStream(self.cuda.current_stream().cuda_stream):
            yield


SPIN = r"""
extern "C" __global__ void kernbench_spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
}"""


class CupyDevice:
    """The current device of CuPy. Everything is queued on CuPy's current stream."""

    kind = "cuda"

    def __init__(self, cupy: Any) -> None:
        self.cupy, self.cuda = cupy, cupy.cuda
        self.kind = "hip" if getattr(cupy.cuda.runtime, "is_hip", False) else "cuda"
        self.cache: Any = None
        self.kernel = cupy.RawKernel(SPIN, "kernbench_spin")

    def event(self) -> Any:
        return self.cuda.Event()

    def reached(self, event: Any) -> bool:
        return event.done

    def elapsed(self, start: Any, end: Any) -> int:
        return round(self.cuda.get_elapsed_time(start, end) * 1e6)

    def synchronize(self) -> None:
        self.cuda.Device().synchronize()

    def spin(self, cycles: int) -> None:
        self.kernel((1,), (1,), (self.cupy.int64(cycles),))

    def flush(self) -> None:
        if self.cache is None:
            self.cache = self.cupy.empty(FLUSH_BYTES, dtype=self.cupy.int8)
        self.cache.data.memset_async(0, FLUSH_BYTES)

    def capture(self, run: Callable[[int], None], calls: int) -> Callable[[], None]:
        self.synchronize()
        stream = self.cuda.Stream(non_blocking=True)
        with stream:
            run(1)  # fills the memory pool of this stream: a capture must not allocate
            stream.synchronize()
            stream.begin_capture()
            try:
                run(calls)
            finally:
                graph = stream.end_capture()
        return graph.launch
