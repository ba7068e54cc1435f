#!/usr/bin/env python3
"""Checks that what a small program runs of the shared library lies together, as src/override/layout.ld places it.

usage: layout_test.py --library libstrata.so --program hot_pair

The kernel maps the 64 KiB around each page that is touched: a function that lies elsewhere costs the
smallest programs as much memory as all the others. callgrind says what runs.
"""
import argparse
import bisect
import re
import subprocess
import sys

import hot_path_test

WINDOW = 1 << 16
# By command: how far into the library its code may lie.
SMALL_PROGRAMS = {
    ("true",): WINDOW,
    ("PROGRAM", "20", "malloc", "100", "0"): WINDOW,
}
# The C library's part of registering fork handlers lies apart from what else small programs touch of it: 64 KiB.
NOT_BEFORE_ALLOCATING = re.compile("register_atfork|register_fork_handlers|take_part_in_forks")


def functions(library):
    """The library's functions: their addresses in order, and their names."""
    symbols = subprocess.run(["nm", "--demangle", library], check=True, capture_output=True, text=True).stdout
    rows = sorted((int(address, 16), name) for address, kind, name in
                  (line.split(maxsplit=2) for line in symbols.splitlines() if line[:1] != " ") if kind in "tTwW")
    return [row[0] for row in rows], [row[1] for row in rows]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--program", required=True)
    arguments = parser.parse_args()
    addresses, names = functions(arguments.library)
    failed = False
    for command, end in SMALL_PROGRAMS.items():
        command = [arguments.program if word == "PROGRAM" else word for word in command]
        executed = hot_path_test.executions_of(arguments.library, command)
        far = {names[bisect.bisect_right(addresses, address) - 1] for address in executed if address >= end}
        print(f"{command[0]}: {len(executed)} instructions of the library run, in {max(executed, default=0):#x} bytes of at most {end:#x}")
        for name in sorted(far):
            print(f"  lies farther: {name}")
        ran = {names[bisect.bisect_right(addresses, address) - 1] for address in executed}
        idle = sorted(name for name in ran if command[0] == "true" and NOT_BEFORE_ALLOCATING.search(name))
        for name in idle:
            print(f"  runs although the program allocates nothing: {name}")
        failed |= not executed or bool(far) or bool(idle)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
