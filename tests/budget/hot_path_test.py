#!/usr/bin/env python3
"""Counts what a pair of an allocation and a free costs inside the shared library, way by way.

usage: hot_path_test.py --library libstrata.so --program hot_pair [--slack 1.05]

callgrind counts every instruction by its address, for N pairs after N others: what was executed N times
is the hot path, exactly. That path must be short and must hold no call, no fence and no atomic
read-modify-write, but for the exchange that pops an object beyond 32 KiB. Only what runs inside the
program's pairs() is counted: what a start takes differs from run to run, as where the heap lies is random,
and valgrind's own memory may lie there already.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# The way, bytes, alignment: instructions of an allocation and its free together, under STRATA_CHECKS=basic. They may only
# become fewer, unless a decision record says what is gained for them.
MOST_INSTRUCTIONS = {
    ("malloc", 16, 0): 35,  # the peers need 37 to 65
    ("malloc", 100, 0): 35,
    ("malloc", 1024, 0): 35,
    ("malloc", 4096, 0): 46,
    ("malloc", 40000, 0): 54,  # one of them locked
    ("aligned_alloc", 64, 64): 45,
    ("aligned_alloc", 100, 4096): 52,
    ("posix_memalign", 64, 64): 55,
    ("new", 64, 64): 44,
    ("malloc", 0, 0): 55,
    ("sized", 64, 0): 39,
    ("usable", 64, 0): 66,
    ("in_place", 64, 0): 74,
    ("in_place", 40000, 0): 117,
    # Under auto, after so many small objects that it has ended: their states would take too much.
    ("malloc", 100, 0, 1 << 19): 35,
}
# The same for blocks that grow in steps, per step: some of them move, which the rule about calls is not about.
MOST_INSTRUCTIONS_A_STEP = {
    ("realloc", 1024, 16): 55.4,
    ("realloc", 4096, 64): 56.1,
    ("realloc", 65536, 256): 70.8,
}
# The same where a feature is on: a mean, because what features choose is random. docs/design.md states what was measured.
MOST_INSTRUCTIONS_WITH = {
    # 0.1 counts them.
    ("STRATA_CHECKS", "auto", ("malloc", 40000, 0)): 150.2,
    ("STRATA_CHECKS", "auto", ("malloc", 100, 0)): 73.2,
    ("STRATA_CHECKS", "auto", ("malloc", 4096, 0)): 84.2,
    ("STRATA_CHECKS", "auto", ("calloc", 64, 0)): 86.2,
    ("STRATA_CHECKS", "auto", ("sized", 64, 0)): 83.2,
    ("STRATA_CHECKS", "auto", ("usable", 64, 0)): 111.2,
    ("STRATA_CHECKS", "auto", ("usable", 40000, 0)): 188.2,
    ("STRATA_CHECKS", "auto", ("in_place", 64, 0)): 122.2,
    ("STRATA_CHECKS", "auto", ("aligned_alloc", 64, 64)): 107.2,
    ("STRATA_CHECKS", "auto", ("new", 64, 64)): 167.2,
    ("STRATA_CHECKS", "auto", ("nothing", 64, 0)): 93.2,
    # What runs twice in a pair, or only in some.
    ("STRATA_CHECKS", "basic", ("calloc", 64, 0)): 48.2,
    ("STRATA_CHECKS", "basic", ("nothing", 64, 0)): 55.2,
    # Blocks beyond the size classes, in pages and in mappings that have just been freed.
    ("STRATA_CHECKS", "basic", ("malloc", 200000, 0)): 375.7,
    ("STRATA_CHECKS", "basic", ("malloc", 300000, 0)): 373.2,
    ("STRATA_CHECKS", "basic", ("malloc", 1000000, 0)): 389.2,
    ("STRATA_CHECKS", "basic", ("malloc", 2097152, 0)): 731.2,
    ("STRATA_CHECKS", "auto", ("malloc", 300000, 0)): 373.2,
    ("STRATA_CHECKS", "auto", ("sized", 300000, 0)): 490.2,
    ("STRATA_CHECKS", "frees", ("malloc", 100, 0)): 73.2,
    ("STRATA_CHECKS", "frees", ("malloc", 4096, 0)): 84.2,
    ("STRATA_CHECKS", "full", ("malloc", 100, 0)): 1673,
    ("STRATA_GUARD_RATE", "10000", ("malloc", 100, 0)): 100,  # 88: system calls and stacks for each guarded object
}
PAIRS = 2000
MOST_PLAIN_BYTES = 32768  # objects beyond it are popped by an exchange


def executions(library, program, pairs, way, **options):
    """How often each instruction of the library ran for the pairs: {offset in the library: times}."""
    return executions_of(library, [program, pairs, *way], "--toggle-collect=pairs", **{"STRATA_RANDOM": "off", **options})


def executions_of(library, command, *counting, **options):
    """How often each instruction of the library, which is preloaded unless it is the program itself, ran while
    callgrind counted, as its options say: {offset in the library: times}."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        subprocess.run(
            ["valgrind", "--quiet", "--tool=callgrind", "--dump-instr=yes", "--compress-strings=no", "--compress-pos=no",
             f"--callgrind-out-file={out}", *counting, *(str(word) for word in command)],
            env={**os.environ, **options, "LD_PRELOAD": "" if library == command[0] else library}, check=True, stdout=subprocess.DEVNULL)
        text = out.read_text()
    counts = collections.Counter()
    ours = after_calls = False
    for line in text.splitlines():
        if line.startswith("ob="):
            ours = os.path.realpath(line[3:]) == os.path.realpath(library)
        elif line.startswith("calls="):
            after_calls = True  # the next line is the callee's cost
        elif re.match(r"0x[0-9a-f]+ ", line):
            address, _, cost = line.split()[:3]
            if ours and not after_calls:
                counts[int(address, 16)] += int(cost)
            after_calls = False
    return counts


def disassembly(library):
    """{offset: text of the instruction}"""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], check=True, capture_output=True, text=True)
    return {int(m[1], 16): m[2].strip() for m in re.finditer(r"^ +([0-9a-f]+):\t(.*)$", text.stdout, re.M)}


def mean(arguments, pairs, way, **options):
    """Instructions of the library for each of the pairs."""
    return sum(executions(arguments.library, arguments.program, pairs, way, **options).values()) / pairs


def allowed(budgets, slack):
    """The budgets, for a compiler whose code may take so many times as much."""
    return {way: round(most * slack, 1) for way, most in budgets.items()}


def exceeds_means(arguments):
    """Whether a block that grows, or a pair with a feature, takes more than its budget allows."""
    failed = False
    for way, most in allowed(MOST_INSTRUCTIONS_A_STEP, arguments.slack).items():
        step = mean(arguments, PAIRS // 10, way, STRATA_CHECKS="basic") / (way[1] // way[2])
        print(f"{way[0]} to {way[1]} bytes by {way[2]}: {step:.1f} instructions a step, at most {most}")
        failed |= not 0 < step <= most
    for (name, value, way), most in allowed(MOST_INSTRUCTIONS_WITH, arguments.slack).items():
        pair = mean(arguments, 10 * PAIRS, way, **{"STRATA_CHECKS": "basic", name: value})
        print(f"{name}={value}, {way[0]}, {way[1]} bytes: {pair:.1f} instructions a pair, at most {most}")
        failed |= not 0 < pair <= most
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--slack", type=float, default=1)
    arguments = parser.parse_args()
    code = disassembly(arguments.library)
    failed = exceeds_means(arguments)
    for way, most in allowed(MOST_INSTRUCTIONS, arguments.slack).items():
        # Where a program kept objects before, guards would be odd pairs.
        options = {"STRATA_CHECKS": "basic"} if len(way) == 3 else {"STRATA_CHECKS": "auto", "STRATA_GUARD_RATE": "0"}
        counts = executions(arguments.library, arguments.program, PAIRS, way, **options)
        hot = [address for address in sorted(counts) if counts[address] == PAIRS]
        odd = [address for address in counts if counts[address] not in (0, PAIRS)]
        total = sum(counts.values())
        print(f"{way[0]}, {way[1]} bytes aligned to {way[2]}{' later' * (len(way) - 3)}: {total / PAIRS:.2f} instructions a pair, at most {most}")
        if not hot:
            print("nothing was counted: the program does not run on the library")
            failed = True
        if odd:
            print(f"{len(odd)} instructions run in some of the pairs only: this is no hot path")
            failed = True
        if total > most * PAIRS:
            print("more than the budget allows")
            failed = True
        exchanges = 0
        for address in hot:
            # callgrind gives offsets in the file for libraries; without one the check would be void.
            instruction = code.get(address)
            if instruction is None:
                print(f"no instruction is known at {address:#x}")
                failed = True
            elif way[1] > MOST_PLAIN_BYTES and not exchanges and re.match(r"xchg\b.*\(", instruction):
                exchanges += 1
            elif re.match(r"(lock|xchg\b.*\(|call|mfence|lfence|sfence|syscall|cmpxchg)", instruction):
                print(f"in the hot path at {address:#x}: {instruction}")
                failed = True
        if failed:
            for address in hot:
                print(f"  {address:#x}  {code.get(address)}")
            return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
