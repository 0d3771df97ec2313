"""Solves sparse linear systems in a kernbench process: kernbench.solve(A, b)."""

import atexit
import json
import mmap
import os
import subprocess
import tempfile
import threading
from typing import Any, Dict, List, Optional, Tuple

import kernbench
from kernbench import _solve_cuda


class SolveError(RuntimeError):
    """A solve that gave no solution. residual is ||b - Ax|| / ||b|| where it ended, or None."""

    def __init__(self, message: str, residual: Optional[float] = None, iterations: int = 0) -> None:
        super().__init__(message)
        self.residual = residual
        self.iterations = iterations


def solve(A: Any, b: Any, method: str = "auto", precond: str = "none", tol: float = 1e-8, maxiter: int = 0,
          ranks: int = 1) -> Any:
    """Returns x with A x = b to the relative residual tol.

    A is a torch tensor in CSR layout, a tuple (crow_indices, col_indices, values) of torch tensors, or a SciPy
    matrix. b is a vector, or a matrix whose columns are right-hand sides, of the same library. All are in float64.
    With torch the result is differentiable, once, with respect to b and to the values of A. Tensors may be on the
    GPU cuda:0, with a symmetric positive definite A, the method cg, cg-single or cg-pipelined, and precond none or
    jacobi.

    method is one that `kernbench run --bench solve-scaling --help` lists, or "auto": cg if A is symmetric, else
    gmres. ranks is the number of processors. Raises SolveError if the solve does not converge."""
    options = {"Method": method, "Precond": precond, "Tol": float(tol), "MaxIter": int(maxiter), "Ranks": int(ranks)}
    if not 0 < options["Tol"] < 1:
        raise ValueError("tol=%r: want a number above 0 and below 1" % tol)
    if options["Ranks"] < 1:
        raise ValueError("ranks=%r: want at least 1" % ranks)
    if type(b).__module__.split(".")[0] == "torch":
        return _solve_torch(A, b, options)
    return _solve_numpy(A, b, options)


def _check_shapes(rows: int, columns: int, shape: Tuple[int, ...]) -> None:
    if rows != columns:
        raise ValueError("A has %d rows and %d columns: a solve needs a square matrix" % (rows, columns))
    if len(shape) not in (1, 2) or shape[0] != rows:
        raise ValueError("b has the shape %s, A has %d rows: want (%d,) or (%d, columns)" % (tuple(shape), rows, rows, rows))
    if rows == 0 or 0 in shape:
        raise ValueError("A or b is empty")


def _solve_numpy(A: Any, b: Any, options: Dict[str, Any]) -> Any:
    import numpy

    if not hasattr(A, "indptr"):
        if not hasattr(A, "tocsr"):
            raise TypeError("A is a %s: want a SciPy sparse matrix, or a torch tensor in CSR layout with b a torch tensor"
                            % type(A).__name__)
        A = A.tocsr()
    if getattr(A, "format", "csr") != "csr":
        A = A.tocsr()
    b = numpy.asarray(b)
    _check_shapes(A.shape[0], A.shape[1], b.shape)
    for name, array in (("A", A.data), ("b", b)):
        if numpy.iscomplexobj(array):
            raise TypeError("%s is complex: want real numbers" % name)
    columns = 1 if b.ndim == 1 else b.shape[1]
    x = numpy.empty(b.shape, numpy.float64)

    def write(memory: mmap.mmap, at: List[int]) -> None:
        for part, dtype, source in zip(at, (numpy.int64, numpy.int64, numpy.float64, numpy.float64),
                                       (A.indptr, A.indices, A.data, b)):
            numpy.frombuffer(memory, dtype, source.size, part)[:] = source.reshape(-1)

    def read(memory: mmap.mmap, at: int) -> None:
        x.reshape(-1)[:] = numpy.frombuffer(memory, numpy.float64, x.size, at)

    _service().call(A.shape[0], A.data.size, columns, False, options, write, read)
    return x


def _solve_torch(A: Any, b: Any, options: Dict[str, Any]) -> Any:
    import torch

    if isinstance(A, (tuple, list)):
        crow, col, values = A
        size = (crow.numel() - 1, crow.numel() - 1)
    elif isinstance(A, torch.Tensor) and A.layout == torch.sparse_csr:
        crow, col, values, size = A.crow_indices(), A.col_indices(), None, tuple(A.shape)
    else:
        raise TypeError("A is %s: want a tensor in CSR layout (A.to_sparse_csr()), or a tuple (crow_indices, "
                        "col_indices, values)" % (getattr(A, "layout", None) or type(A).__name__))
    _check_shapes(size[0], size[1], tuple(b.shape))
    given = A if values is None else values
    if given.dim() != (2 if values is None else 1) or crow.dim() != 1 or col.dim() != 1 or crow.numel() < 1:
        raise ValueError("A must have one-dimensional arrays crow_indices, col_indices and values")
    if values is not None and col.numel() != values.numel():
        raise ValueError("A has %d column indices and %d values" % (col.numel(), values.numel()))
    for name, t in (("A", given), ("b", b)):
        if t.dtype != torch.float64:
            raise TypeError("%s has the type %s: want torch.float64" % (name, t.dtype))
    for name, t in (("crow_indices", crow), ("col_indices", col), ("b", b)):
        if t.device != given.device:
            raise ValueError("the values of A are on %s and %s on %s: all must be on the same device"
                             % (given.device, name, t.device))
    if b.device.type not in ("cpu", "cuda"):
        raise ValueError("A and b are on %s: kernbench.solve works on CPUs and on NVIDIA GPUs" % b.device)
    if b.device.type == "cuda":
        _solve_cuda.check_options(b.device, options)
    return _function().apply(A if values is None else values, b, crow, col, options)


_functions: List[Any] = []


def _function() -> Any:
    """The torch.autograd.Function, which is made when torch is first used."""
    if _functions:
        return _functions[0]
    import torch
    from torch.autograd.function import once_differentiable

    def run(crow: Any, col: Any, values: Any, b: Any, transposed: bool, options: Dict[str, Any]) -> Any:
        if b.device.type == "cuda":
            if not transposed:  # the adjoint system has the same matrix
                _solve_cuda.check_matrix(crow, col, values)
            return _solve_cuda.run(_service(), crow, col, values, b, options)
        x = torch.empty(b.shape, dtype=torch.float64)

        def view(memory: mmap.mmap, dtype: Any, count: int, at: int) -> Any:
            return torch.frombuffer(memory, dtype=dtype, count=count, offset=at)

        def write(memory: mmap.mmap, at: List[int]) -> None:
            for part, dtype, source in zip(at, (torch.int64, torch.int64, torch.float64, torch.float64),
                                           (crow, col, values, b)):
                if source.numel():
                    view(memory, dtype, source.numel(), part).copy_(source.reshape(-1))

        def read(memory: mmap.mmap, at: int) -> None:
            x.view(-1).copy_(view(memory, torch.float64, x.numel(), at))

        columns = 1 if b.dim() == 1 else b.shape[1]
        _service().call(crow.numel() - 1, values.numel(), columns, transposed, options, write, read)
        return x

    class Solve(torch.autograd.Function):
        """x of A x = b. The gradient of b is v with A' v = g, and the one of the entry (i, j) of A is -v_i x_j."""

        @staticmethod
        def forward(ctx: Any, A: Any, b: Any, crow: Any, col: Any, options: Dict[str, Any]) -> Any:
            values = (A.values() if A.layout == torch.sparse_csr else A).detach()
            x = run(crow, col, values, b.detach(), False, options)
            ctx.save_for_backward(crow, col, values, x)
            ctx.options, ctx.sparse, ctx.size = options, A.layout == torch.sparse_csr, tuple(A.shape)
            return x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, grad: Any) -> Any:
            crow, col, values, x = ctx.saved_tensors
            v = run(crow, col, values, grad.contiguous(), True, ctx.options)
            to_matrix = None
            if ctx.needs_input_grad[0]:
                products = v[_solve_cuda.rows_of(crow)] * x[col.to(torch.int64)]
                to_matrix = -(products if x.dim() == 1 else products.sum(1))
                if ctx.sparse:
                    to_matrix = torch.sparse_csr_tensor(crow, col, to_matrix, ctx.size)
            return to_matrix, v if ctx.needs_input_grad[1] else None, None, None, None

    _functions.append(Solve)
    return Solve


class _Service:
    """A kernbench process that solves, and the memory that it shares with this one."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.log = tempfile.TemporaryFile()
        if hasattr(os, "memfd_create"):
            self.memory = os.memfd_create("kernbench-solve")
        else:
            self.memory = os.dup(tempfile.TemporaryFile().fileno())
        self.process = subprocess.Popen([kernbench._binary(), "solve-service", "--memory", str(self.memory)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        pass_fds=[self.memory],
                                        start_new_session=True)  # Ctrl-C is for Python, which may catch it

    def call(self, rows: int, entries: int, columns: int, transposed: bool, options: Dict[str, Any], write: Any,
             read: Any) -> None:
        sizes = [rows + 1, entries, entries, rows * columns, rows * columns]
        at = [8 * sum(sizes[:k]) for k in range(len(sizes) + 1)]
        request = dict(options, Rows=rows, Entries=entries, Columns=columns, Transposed=transposed)
        with self.lock:
            os.ftruncate(self.memory, at[-1])
            memory = mmap.mmap(self.memory, at[-1])
            write(memory, at)
            self.ask(request)
            read(memory, at[4])

    def request(self, request: Dict[str, Any]) -> Dict[str, Any]:
        """The reply to a request whose arrays are in GPU memory."""
        with self.lock:
            return self.ask(request)

    def ask(self, request: Dict[str, Any]) -> Dict[str, Any]:
        """Sends a request and waits for the reply. The caller holds the lock."""
        try:
            self.process.stdin.write((json.dumps(request) + "\n").encode())
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BaseException as e:  # after an interrupt, the next request would read this answer
            self.close()
            if not isinstance(e, OSError):
                raise
            line = b""
        if not line:
            self.close()
            self.log.seek(0)
            raise SolveError("the kernbench process ended: %s" % self.log.read().decode(errors="replace").strip())
        reply = json.loads(line)
        if reply["error"]:
            residual = reply["residual"] if reply["iterations"] else None
            raise SolveError(reply["error"], residual, reply["iterations"])
        return reply

    def close(self) -> None:
        if _services.get("service") is self:
            del _services["service"]
        if self.pid == os.getpid():
            self.process.kill()
            self.process.wait()


_services: Dict[str, _Service] = {}


def _service() -> _Service:
    """The service of this process. A forked child starts its own."""
    found = _services.get("service")
    if found is None or found.pid != os.getpid() or found.process.poll() is not None:
        found = _services["service"] = _Service()
    return found


@atexit.register
def _end() -> None:
    found = _services.get("service")
    if found is not None:
        found.close()
