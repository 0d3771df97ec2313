"""Stands in for a benchmark script of an NCCL or RCCL application.

It moves no data. It reads what such a script reads (its arguments, RANK,
WORLD_SIZE, the library's variables), computes times from a simple model, adds
noise, and prints them in the way such scripts do:

    [rank 0/2] M=128 ctas=32 time=27.31us

or, with --json, one object with all samples. Python's standard library only.
"""

import argparse
import json
import os
import random
import sys


def limit(name, default):
    text = os.environ.get(name)
    if text is None:
        return default
    if not text.isdigit() or int(text) < 1:
        sys.exit(f"{name}={text}: want a whole number of at least 1")
    return int(text)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--m", type=int, help="rows of 8192 half-precision numbers")
    args.add_argument("--bytes", type=int, help="message size, instead of --m")
    args.add_argument("--iters", type=int, default=10)
    args.add_argument("--json", action="store_true")
    args = args.parse_args()
    size = args.bytes if args.bytes is not None else (args.m or 1) * 8192 * 2

    rank = int(os.environ.get("RANK", "0"))
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    low, high = limit("NCCL_MIN_CTAS", 1), limit("NCCL_MAX_CTAS", 64)
    if low > high:
        sys.exit(f"NCCL_MIN_CTAS={low} is above NCCL_MAX_CTAS={high}")
    ctas = min(max(size // 65536, low), high)

    # Start-up grows with ranks and CTAs; bandwidth with CTAs until the link
    # is full.
    latency = 6.0 + 1.5 * ranks + 0.05 * ctas
    gbps = min(3.0 * ctas, 150.0)
    if os.environ.get("RCCL_WARP_SPEED_ENABLE") == "1":
        latency, gbps = latency * 0.8, gbps * 1.1
    moved = 2 * size * (ranks - 1) / ranks
    times = [latency + moved / gbps / 1e3 for _ in range(args.iters)]
    times = [t * (1 + abs(random.gauss(0, 0.02))) for t in times]

    if args.json:
        best = min(times)
        print(json.dumps({
            "rank": rank,
            "times_us": [round(t, 3) for t in times],
            "busbw": round(moved / best / 1e3, 3),
        }))
        return
    for t in times:
        print(f"[rank {rank}/{ranks}] M={args.m} ctas={ctas} time={t:.2f}us")


if __name__ == "__main__":
    main()
