#!/usr/bin/env python3
"""Checks that what programs run of the shared library lies together, as src/override/layout.ld places it.

usage: layout_test.py --library libstrata.so --program hot_pair --threads second_thread --tiny strata-tiny --cell strata-cell

The kernel maps the 64 KiB around each page that is touched: a function that lies elsewhere costs a
program as much memory as all the others. callgrind says what runs.
"""
import argparse
import bisect
import re
import subprocess
import sys

import hot_path_test

WINDOW = 1 << 16
# By command: how far into the library its code may lie. What ends without a heap has half of a window.
SMALL_PROGRAMS = {
    ("true",): WINDOW,
    # With a heap: what is kept is more than lies beside one.
    ("PROGRAM", "20", "malloc", "100", "0", "1030"): WINDOW,
    ("PROGRAM", "20", "malloc", "0", "0", "1030"): WINDOW,
    ("PROGRAM", "20", "realloc", "1000", "100", "1030"): WINDOW,
    # Without one.
    ("ls", "/"): WINDOW // 2,
    ("id",): WINDOW // 2,
    ("cat", "/etc/passwd"): WINDOW // 2,
    ("sort", "/etc/passwd"): WINDOW // 2,
    ("grep", "root", "/etc/passwd"): WINDOW,  # asks for a block of 0 bytes
    ("echo", "word"): WINDOW // 2,
    ("TINY",): WINDOW // 2,
}
# A buffer of more than 8 MiB, hardly touched: it starts no thread, unless a filter decides which system calls are made.
if "Seccomp:\t0" in open("/proc/self/status", encoding="utf-8").read():
    SMALL_PROGRAMS["sort", "/dev/null"] = 2 * WINDOW
# With some MiB of heap, a thread at a time. By command: how many operations.
BUSY_PROGRAMS = {
    ("churn", "--mode=window", "--size=64", "--size-dist=fixed", "--window=1000", "--batch=1000"): 20000,
    ("containers", "--elements=2000"): 20000,
    ("thread-churn", "--objects=64"): 200,
}
CELL_OPTIONS = "--contender= --threads=1 --seconds=60 --warmup=10 --seed=1 --sample-rate=0".split()
# What depends on chance or on the clock is off; so options are read.
WITHOUT_CHANCE = {"STRATA_GUARD_RATE": "0", "STRATA_RANDOM": "off", "STRATA_CHECKS": "basic", "STRATA_RELEASE_DELAY_MS": "0"}
FOR_OPTIONS = re.compile(r"read_options|set_option|settle_limits|option_in_environment|OptionTable|OptionRow|environment_entry|has_environment|has_foreign_rights|"
                         r"keep_text|start_watchers|statistics_at_exit|\bindex_of|\bparse_|\brandom_|is_of_others|is_name_of|begins_with|\bstrlen|\bmemchr")
# With a second thread, however it begins, fork handlers are registered.
PROGRAMS_WITH_THREADS = [("THREADS", "posix"), ("THREADS", "c11")]
# The C library's part of registering fork handlers lies apart from what else small programs touch of it: 200 KiB.
WITH_THREADS = re.compile("take_part_in_forks")


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
    parser.add_argument("--threads", required=True, help="second_thread")
    parser.add_argument("--tiny", required=True, help="strata-tiny: a hundred blocks of 8 to 800 bytes")
    parser.add_argument("--cell", required=True, help="strata-cell: one load of the laboratory's")
    arguments = parser.parse_args()
    addresses, names = functions(arguments.library)
    failed = False
    paths = {"PROGRAM": arguments.program, "THREADS": arguments.threads, "TINY": arguments.tiny, "CELL": arguments.cell}

    def run(command, **options):
        executed = hot_path_test.executions_of(arguments.library, [paths.get(word, word) for word in command], **options)
        return {address: names[bisect.bisect_right(addresses, address) - 1] for address in executed}

    for command, end in SMALL_PROGRAMS.items():
        ran = run(command)
        print(f"{command}: {len(ran)} instructions of the library run, in {max(ran, default=0):#x} bytes of at most {end:#x}")
        far = {name for address, name in ran.items() if address >= end}
        for name in sorted(far):
            print(f"  lies farther: {name}")
        idle = {name for name in ran.values() if WITH_THREADS.search(name)}
        for name in sorted(idle):
            print(f"  runs although the program has one thread: {name}")
        failed |= not ran or bool(far) or bool(idle)
    for command, operations in BUSY_PROGRAMS.items():
        ran = run(["CELL", *command, f"--ops={operations}", *CELL_OPTIONS], **WITHOUT_CHANCE)
        far = {name for address, name in ran.items()
               if address >= (3 if FOR_OPTIONS.search(name.replace("(anonymous namespace)", "").partition("(")[0]) else 2) * WINDOW}
        print(f"{command}: {len(ran)} instructions of the library run")
        for name in sorted(far):
            print(f"  lies farther: {name}")
        failed |= not ran or bool(far)
    for command in PROGRAMS_WITH_THREADS:
        if not any(WITH_THREADS.search(name) for name in run(command).values()):
            print(f"{command}: no fork handlers are registered")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
