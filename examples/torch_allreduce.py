"""All-reduce of torch.distributed over gloo: checked, then timed.

One process per rank; RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT come from
the environment. Prints one line per timed call:

    time=123.4us
"""

import argparse
import sys
import time

import torch
import torch.distributed as dist


def check(count, rank, ranks):
    """A sum whose result is known exactly and differs in every element."""
    index = torch.arange(count, dtype=torch.float32) % 1024
    data = index + rank
    dist.all_reduce(data)
    want = index * ranks + ranks * (ranks - 1) // 2
    wrong = int((data != want).sum())
    if wrong:
        sys.exit(f"rank {rank}: {wrong} of {count} elements are wrong")


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--bytes", type=int, required=True)
    args.add_argument("--iters", type=int, default=20)
    args.add_argument("--warmup", type=int, default=5)
    args = args.parse_args()

    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    count = max(args.bytes // 4, 1)
    check(count, rank, ranks)

    data = torch.zeros(count, dtype=torch.float32)
    for i in range(args.warmup + args.iters):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(data)
        elapsed = time.perf_counter() - start
        if i >= args.warmup:
            print(f"time={elapsed * 1e6:.1f}us")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
