"""The command kernbench of an installed wheel."""

import os
import sys

from kernbench import _binary


def main() -> None:
    """Replaces this process by the program. Benches in Python then use this interpreter, so that the
    command of a virtual environment measures with the libraries of that environment."""
    os.environ.setdefault("KERNBENCH_PYTHON", sys.executable)
    os.execv(_binary(), ["kernbench"] + sys.argv[1:])
