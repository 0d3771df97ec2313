"""A stand-in for torch. Its GPU is a queue: work has a duration, and each stream has its own clock."""

from . import cuda

__version__ = "0.fake"


class version:
    hip = None
