"""The command kernbench of an installed wheel."""

import os
import sys

from kernbench import _binary_or_exit


def main() -> None:
    """Replaces this process by the program. Benches in Python then use this interpreter, so that the
    command of a virtual environment measures with the libraries of that environment."""
    program = _binary_or_exit()
    if os.path.realpath(program) == os.path.realpath(sys.argv[0]):
        sys.exit("%s: KERNBENCH must name the program, not this command: unset it" % program)
    os.environ.setdefault("KERNBENCH_PYTHON", sys.executable)
    os.execv(program, ["kernbench"] + sys.argv[1:])
