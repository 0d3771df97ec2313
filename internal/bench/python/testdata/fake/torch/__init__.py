"""A stand-in for torch, whose GPU is simulated in real time."""

from . import cuda

__version__ = "0.fake"
int = int


class version:
    hip = None


class empty:
    def __init__(self, n, dtype, device):
        assert n * 4 >= 256 << 20 and device == "cuda"

    def zero_(self):
        cuda.work(50)
        cuda.flushed[0] = True
