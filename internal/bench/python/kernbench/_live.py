"""Times functions of this process. kernbench runs beside it, connects to a socket, and asks for samples as
it asks a file of benches. So rows, stopping rule and figures are the same as with `kernbench run`."""

import hashlib
import inspect
import json
import os
import re
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, List, Optional, Sequence

import kernbench
from kernbench import PROTOCOL, Context, _Bench, _Declaration, _Link, _Server

current: List["_LiveServer"] = []  # the servers whose bodies run now, the innermost last


class _LiveServer(_Server):
    """Answers the requests of one connection."""

    def __init__(self, link: _Link, session: "Session") -> None:
        super().__init__(link, "this process")
        self.session = session
        self.calibration: Dict[str, int] = {}

    def on_hello(self, hello: dict) -> dict:
        if hello["protocol"] != PROTOCOL:
            raise RuntimeError("this module speaks protocol %d, kernbench %s" % (PROTOCOL, hello["protocol"]))
        if hello["num_ranks"] != 1:
            raise RuntimeError("a running process is one rank: several ranks need a file for `kernbench run -f`")
        self.context = Context(self.link, hello)
        self.environ = {name: os.environ.get(name) for name in hello["watch"]}
        self.calibration = kernbench._calibrate()
        return {"benches": [self.session.declaration.message()], "environ": self.environ,
                "clock": self.calibration, "version": kernbench._version(), "source": self.session.source,
                "inputs": {}}

    def declaration(self, name: str) -> _Declaration:
        return self.session.declaration

    def join(self, d: _Declaration) -> None:
        """Does nothing: the process has initialised torch.distributed itself if it uses it."""

    def guarded(self, answer: Callable[[dict], dict], asked: dict) -> dict:
        try:
            return answer(asked)
        except kernbench._Skip:
            raise
        except BaseException as e:
            self.session.raised = e
            raise

    def on_point(self, asked: dict) -> dict:
        current.append(self)
        try:
            return self.guarded(super().on_point, asked)
        finally:
            current.pop()

    def on_call(self, asked: dict) -> dict:
        return self.guarded(super().on_call, asked)

    def on_preamble(self, asked: dict) -> dict:
        return self.guarded(super().on_preamble, asked)

    def on_verify(self, asked: dict) -> dict:
        return self.guarded(super().on_verify, asked)

    def on_sample(self, asked: dict) -> dict:
        reply = self.guarded(super().on_sample, asked)
        overhead = (self.timer().clock() or self.calibration)["overhead"]  # as kernbench subtracts it
        self.session.samples += [max(0, ns - overhead) / asked["batch"] for ns in reply["samples"]]
        return reply

    def time_now(self, fn: Callable, **how: Any) -> List[float]:
        """Has kernbench time a call while the body runs, and returns the nanoseconds of its samples."""
        self.state.exec(fn, **how)
        self.link.send({**self.state._prepared(), "time": True})
        while True:
            request = self.link.receive()
            if request is None:
                raise RuntimeError("kernbench ended while it timed a call")
            if "timed" in request:
                self.state._timer = None  # the body has no other call to time
                return self.session.samples[-request["timed"]["samples"]:]
            self.link.send(self.reply(request))


class Session:
    """One run of kernbench over the points of one declaration."""

    def __init__(self, declaration: _Declaration, source: str, out: str, flags: Sequence[str] = (),
                 progress: bool = False) -> None:
        self.declaration = declaration
        self.source = hashlib.sha256(source.encode()).hexdigest()
        self.out, self.flags, self.progress = out, list(flags), progress
        self.samples: List[float] = []  # nanoseconds per call of all samples, warm-ups included
        self.raised: Optional[BaseException] = None
        self.errors = self.output = ""  # what kernbench wrote to its standard error and standard output

    def run(self) -> int:
        """Runs all points and returns the exit status: 0 if all rows are good, 1 if some failed."""
        folder = tempfile.mkdtemp(prefix="kernbench-")
        try:
            path = os.path.join(folder, "live")
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(path)
                listener.listen(8)
                command = [kernbench._binary(), "run", "-f", path, "--out", self.out, "--format", "jsonl"] + self.flags
                with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE) as child:
                    try:
                        self.serve(listener, child)
                    except BaseException:
                        child.terminate()
                        raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if child.returncode == 130:
            raise KeyboardInterrupt
        if child.returncode not in (0, 1):
            raise RuntimeError(self.errors.strip() or "kernbench ended with status %d" % child.returncode)
        return child.returncode

    def serve(self, listener: socket.socket, child: Any) -> None:
        """Answers requests until kernbench has ended. They are answered in this thread, because devices,
        streams and modes of libraries belong to threads."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(listener, selectors.EVENT_READ, None)
            waiting.register(child.stderr, selectors.EVENT_READ, self.hear)
            waiting.register(child.stdout, selectors.EVENT_READ, self.keep)
            while child.poll() is None:
                for key, _ in waiting.select(0.05):
                    if key.fileobj is listener:
                        link = _Link(listener.accept()[0].detach())
                        waiting.register(link.socket, selectors.EVENT_READ, _LiveServer(link, self))
                    elif key.fileobj in (child.stderr, child.stdout):
                        if not key.data(os.read(key.fd, 1 << 16)):
                            waiting.unregister(key.fileobj)
                    elif not self.answer(key.data):
                        waiting.unregister(key.fileobj)
                        key.data.link.lines.close()
                        key.fileobj.close()
            for key in list(waiting.get_map().values()):
                if isinstance(key.data, _LiveServer):
                    key.data.link.lines.close()
                    key.fileobj.close()
            self.hear(child.stderr.read())
            self.keep(child.stdout.read())

    def rows(self) -> List[Dict[str, Any]]:
        """The rows of the run so far."""
        return [json.loads(line) for line in self.output.splitlines() if line.strip()]

    def good_row(self) -> Dict[str, Any]:
        """The row of a run of one point. If it failed, the exception of the function is raised again."""
        rows = self.rows()
        if self.raised is not None:
            raise self.raised
        if not rows or rows[-1]["status"] != "ok":
            raise RuntimeError(rows[-1].get("reason", rows[-1]["status"]) if rows else self.errors.strip())
        return rows[-1]

    def keep(self, text: bytes) -> bool:
        self.output += text.decode()
        return bool(text)

    def hear(self, text: bytes) -> bool:
        if self.progress and text:
            sys.stderr.write(text.decode(errors="replace"))
            sys.stderr.flush()
        self.errors += text.decode(errors="replace")
        return bool(text)

    def answer(self, server: _LiveServer) -> bool:
        """Answers one request. It returns False if the connection has ended."""
        try:
            request = server.link.receive()
            if request is None:
                return False
            server.link.send(server.reply(request))
        except OSError:
            return False
        if isinstance(self.raised, (KeyboardInterrupt, SystemExit)):
            raise self.raised  # not a failure of the point: the whole process is to end
        return True


def declare(name: str, body: Callable, axes: Optional[Dict[str, Any]] = None, **settings: Any) -> _Declaration:
    """Declares a bench whose axes are given as a mapping, without touching the body itself."""

    def copy(state: Any, ctx: Any) -> None:
        body(state, ctx)

    copy.__doc__ = body.__doc__
    own = _Bench()
    for axis, values in reversed(list((axes or {}).items())):
        own.axis(axis, values if isinstance(values, str) else list(values))(copy)
    d = own._of(copy)
    d.name, d.registered = name, True
    d.settings.update(settings)
    return d


# The source of a run to which one process adds functions one by one. Rows of another source would be hidden
# as outdated, so each row has the hash of its function as a detail instead.
ADDED = "functions of a process"


def add_source(state: Any, fn: Callable) -> None:
    """Records in the row which function was timed."""
    state._report["details"] = {"function_sha256": hashlib.sha256(source_of(fn).encode()).hexdigest()}


def source_of(fn: Callable) -> str:
    """A text that changes when the function does: its source, or its code where there is none."""
    try:
        return inspect.getsource(fn)
    except (OSError, TypeError):
        code = getattr(fn, "__code__", None)
        return repr((code.co_code, code.co_consts, code.co_names)) if code is not None else repr(fn)


def name_of(fn: Callable) -> str:
    """A name for a bench from the name of a function."""
    return name_of_text(getattr(fn, "__name__", type(fn).__name__))


def name_of_text(text: str) -> str:
    """Replaces everything that names of benches and metrics must not have."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_") or "function"
