#!/usr/bin/env python3
"""Counts what a pair of an allocation and a free costs in a heap of one's own, and in ThreadHeaps.

usage: heap_pair_test.py --program heap_pair

As hot_path_test.py, whose counting this uses; the heaps are an archive, so the program holds them, and the
instructions of its own loop are left out.
"""
import argparse
import re
import subprocess
import sys

import hot_path_test

# By way and bytes: instructions of a pair. malloc's takes 35, 46 from 1 KiB on, and 54 beyond 32 KiB; a heap may take 6
# more. What is on takes a mean, because chance is in it.
MOST_INSTRUCTIONS = {
    ("plain", 100): 41,
    ("plain", 1024): 41,
    ("plain", 4096): 51,
    ("plain", 40000): 57,
    ("raw", 100): 40,
    ("raw", 4096): 40,
    ("raw", 40000): 42,
    # Each free is verified at once, as with STRATA_CHECKS=frees, where malloc's pair takes 73 and, from 1 KiB on, 84.
    ("shared", 100): 74,
    ("shared", 4096): 74,
    ("own", 1000): 74,
    ("aligned", 100): 74,
    ("frees", 100): 240,
    ("full", 100): 2011,
    ("guards", 100): 200,
    ("profile", 100): 200,
}
PAIRS = 20000


def own_addresses(program):
    """Where the instructions of pairs() are."""
    symbols = subprocess.run(["nm", "--print-size", program], check=True, capture_output=True, text=True).stdout
    start, size = re.search(r"^(\w+) (\w+) T pairs$", symbols, re.M).groups()
    return range(int(start, 16), int(start, 16) + int(size, 16))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--slack", type=float, default=1)
    arguments = parser.parse_args()
    program = arguments.program
    own = own_addresses(program)
    failed = False
    for (way, size), most in hot_path_test.allowed(MOST_INSTRUCTIONS, arguments.slack).items():
        pair = sum(times for address, times in hot_path_test.executions(program, program, PAIRS, [way, size]).items()
                   if address not in own) / PAIRS
        print(f"{way}, {size} bytes: {pair:.2f} instructions a pair, at most {most}")
        failed |= not 0 < pair <= most
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
