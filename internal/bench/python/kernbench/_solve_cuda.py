"""Solves with CUDA tensors: kernbench.solve(A, b) with A and b on a GPU.

A kernbench process runs the kernels. It opens the memory of the tensors by CUDA IPC, so no array leaves the GPU. The
checks of the matrix and of the solution are torch operations on the GPU: they share nothing with the kernels."""

import base64
import ctypes
import os
from typing import Any, Dict, Tuple

METHODS = ("cg", "cg-single", "cg-pipelined")
PRECONDITIONERS = ("none", "jacobi")

# The kernels work on tiles of this many rows, and keep the products of a tile in shared memory.
TILE = 256

# The largest difference between an entry and its mirror image, relative to the larger, that is taken for rounding.
NEARLY_SYMMETRIC = 1e-12


def check_options(device: Any, options: Dict[str, Any]) -> None:
    """Raises ValueError for options that GPUs do not have."""
    where = "A and b are on %s" % device
    if device.index not in (None, 0):
        raise ValueError("%s: kernbench.solve uses cuda:0. Move them, or start Python with CUDA_VISIBLE_DEVICES=%d"
                         % (where, device.index))
    if options["Method"] not in METHODS + ("auto",):
        raise ValueError("%s, and method %s runs on CPUs only: use %s, or A.cpu() and b.cpu()"
                         % (where, options["Method"], ", ".join(METHODS)))
    if options["Precond"] not in PRECONDITIONERS:
        raise ValueError("%s, and precond %s of a general matrix runs on CPUs only: use %s, or A.cpu() and b.cpu()"
                         % (where, options["Precond"], " or ".join(PRECONDITIONERS)))
    if options["Ranks"] != 1:
        raise ValueError("%s: a solve on a GPU has one rank, not ranks=%d" % (where, options["Ranks"]))


def rows_of(crow: Any) -> Any:
    """The row of each entry."""
    import torch

    counts = (crow[1:] - crow[:-1]).to(torch.int64)
    return torch.repeat_interleave(torch.arange(crow.numel() - 1, device=crow.device), counts)


def check_matrix(crow: Any, col: Any, values: Any) -> None:
    """Raises ValueError for arrays that are no symmetric matrix in compressed sparse rows. The kernels read where the
    columns point, so nothing unchecked may reach them."""
    import torch

    n, entries = crow.numel() - 1, values.numel()
    crow, col = crow.to(torch.int64), col.to(torch.int64)
    if entries >= 2 ** 31:
        raise ValueError("A has %d entries: a GPU solves with at most 2**31 - 1" % entries)
    if int(crow[0]) != 0 or int(crow[-1]) != entries or col.numel() != entries or bool((crow[1:] < crow[:-1]).any()):
        raise ValueError("the row starts of A must ascend from 0 to the number of entries")
    if entries == 0:
        raise ValueError("A has no entries: it is singular")
    row = rows_of(crow)
    bad = torch.nonzero((col < 0) | (col >= n))
    if bad.numel():
        k = int(bad[0])
        raise ValueError("row %d of A has an entry in column %d, but A has %d columns (both count from 0)"
                         % (int(row[k]), int(col[k]), n))
    keys, order = torch.sort(row * n + col)
    twice = torch.nonzero(keys[1:] == keys[:-1])
    if twice.numel():
        key = int(keys[int(twice[0])])
        raise ValueError("row %d of A has two entries in column %d" % (key // n, key % n))
    mirrored, transposed = torch.sort(col * n + row)
    a, b = values[order], values[transposed]
    if not torch.equal(keys, mirrored) or bool(((a - b).abs() > NEARLY_SYMMETRIC * torch.maximum(a.abs(), b.abs())).any()):
        raise ValueError("A is not symmetric: on a GPU there is only cg, which needs a symmetric positive definite matrix. "
                         "Use A.cpu() and b.cpu(), with method gmres or bicgstab")


def run(service: Any, crow: Any, col: Any, values: Any, b: Any, options: Dict[str, Any]) -> Any:
    """The solution of a symmetric system. check_matrix has accepted the matrix."""
    import torch

    n, entries = crow.numel() - 1, values.numel()
    columns = 1 if b.dim() == 1 else b.shape[1]
    row, col = rows_of(crow), col.to(torch.int64)
    diagonal = torch.zeros(n, dtype=torch.float64, device=b.device)
    on = row == col
    diagonal[row[on]] = values[on]
    if options["Precond"] == "jacobi" and bool((diagonal <= 0).any()):
        raise ValueError("row %d of A has no positive entry on the diagonal: jacobi and cg need one"
                         % int(torch.nonzero(diagonal <= 0)[0]))
    starts = torch.cat([crow[:-1:TILE], crow[-1:]]).to(torch.int64)

    # One allocation holds everything, in the order that the service expects.
    sizes = [8 * entries, 8 * n, 8 * n * columns, 8 * n * columns, 4 * (n + 1), 4 * entries]
    memory = torch.empty(sum(sizes), dtype=torch.uint8, device=b.device)
    parts = torch.split(memory, sizes)
    right = (b.reshape(n, columns).t()).reshape(-1)
    for part, dtype, source in zip(parts, (torch.float64,) * 3, (values, 1 / diagonal, right)):
        part.view(dtype).copy_(source)
    for part, source in zip(parts[4:], (crow, col)):
        part.view(torch.int32).copy_(source)
    torch.cuda.current_stream(b.device).synchronize()
    handle, offset = share(memory.data_ptr())
    reply = service.request(dict(options, Rows=n, Entries=entries, Columns=columns, Transposed=False, Device={
        "Handle": base64.b64encode(handle).decode(), "Offset": offset,
        "TileEntries": int((starts[1:] - starts[:-1]).max())}))
    x = parts[3].view(torch.float64).view(columns, n).t().reshape(b.shape).clone()
    check_solution(row, col, values, b, x, options["Tol"], reply)
    return x


def check_solution(row: Any, col: Any, values: Any, b: Any, x: Any, tol: float, reply: Dict[str, Any]) -> None:
    """Raises SolveError if the true residual of a column contradicts the one that the method reports."""
    from kernbench._solve import SolveError

    products = values * x[col] if x.dim() == 1 else values[:, None] * x[col]
    largest = b.abs().amax(dim=0)
    scale = largest.where(largest > 0, largest + 1)  # the squares of tiny values would be 0
    norms = [(v / scale).norm(dim=0) for v in (b.clone().index_add_(0, row, products, alpha=-1), b)]
    worst = float((norms[0] / norms[1].where(norms[1] > 0, norms[1] + 1)).max())
    if not worst <= 10 * tol:
        raise SolveError("the solution is wrong: its true relative residual is %.3g, above 10 x %.3g, though the method "
                         "says %.3g" % (worst, tol, reply["residual"]), worst, reply["iterations"])


def share(address: int) -> Tuple[bytes, int]:
    """The CUDA IPC handle of the allocation that holds an address, and the offset of the address in it."""
    driver = ctypes.CDLL(os.environ.get("KERNBENCH_CUDA_LIB") or "libcuda.so.1")
    base, size, handle = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.create_string_buffer(64)
    for name, arguments in (("cuMemGetAddressRange_v2", (ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address))),
                            ("cuIpcGetMemHandle", (handle, base))):
        status = getattr(driver, name)(*arguments)
        if status:
            raise RuntimeError("the tensors cannot be shared with another process (%s: error %d). Memory of the backend "
                               "cudaMallocAsync and of expandable_segments cannot: see PYTORCH_CUDA_ALLOC_CONF"
                               % (name, status))
    return handle.raw, address - base.value
