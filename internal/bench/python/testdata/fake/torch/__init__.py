"""A torch whose GPU is a queue: work has a duration, and streams have clocks of their own."""

from . import cuda

__version__ = "0.fake"


class version:
    hip = None
