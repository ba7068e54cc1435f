#!/usr/bin/env python3
"""Measures what recording costs the demo's programs.

usage: demo/recording_cost.py [--build DIR] [--runs N] [--only NAME,...]

Each program runs alone, and under `strata record` without and with stacks, in turns. Prints a table in Markdown:
medians of the time by the clock and of CPU time, those of recordings as multiples of the program's own. CPU time
has the recorder's own thread in it, which compresses and writes: the clock shows it only where no processor is free
for it. Run it on a machine that has nothing else to do. Standard library only.
"""
import argparse
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from run_demo import ROOT, choose, libc_path, workloads

WAYS = {"alone": None, "without stacks": ["--stacks", "off"], "with stacks": []}


def run(command, environment):
    """Seconds by the clock, and of CPU time with all that the command starts."""
    began = time.monotonic()
    child = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    elapsed = time.monotonic() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"recording_cost: {command[0]} ended with {child.returncode}")
    return elapsed, usage.ru_utime + usage.ru_stime


def run_one_way(strata, workload, options, path):
    environment = {**os.environ, **workload.environment}
    # A program with an allocator of its own is recorded above glibc's; alone it gets that, too.
    libc = libc_path() if workload.own_malloc else None
    if options is None:
        return run(workload.command, {**environment, "LD_PRELOAD": libc} if libc else environment)
    above = ["--allocator", f"libc={libc}"] if libc else []
    return run([strata, "record", *options, *above, "-o", path, "--", *workload.command], environment)


def calls_and_bytes(strata, path):
    """Of all traces of a recording."""
    calls = size = 0
    for trace in path.parent.glob(path.name + "*"):
        info = subprocess.run([strata, "trace", "info", trace], check=True, capture_output=True, text=True).stdout
        found = re.search(r"^events\s+(\d+)", info, re.M)
        calls += int(found.group(1)) if found else 0
        size += trace.stat().st_size
    return calls, size


def measure(strata, workload, runs, folder):
    seen = {way: [] for way in WAYS}
    sums = {}
    for number in range(runs):
        print(f"{workload.name}: run {number + 1} of {runs}", file=sys.stderr, flush=True)
        for way, options in WAYS.items():
            path = folder / f"{workload.name}.{way.replace(' ', '-')}"
            seen[way].append(run_one_way(strata, workload, options, path))
            if options is not None:
                sums[way] = calls_and_bytes(strata, path)
                for trace in folder.iterdir():
                    trace.unlink()
    return {way: [statistics.median(values) for values in zip(*times)] for way, times in seen.items()}, sums


def row(workload, medians, sums):
    alone = medians["alone"]
    cells = [workload.name, f"{sums['with stacks'][0] / 1e6:.1f} M", f"{alone[0]:.2f} s"]
    for way in ("without stacks", "with stacks"):
        calls, size = sums[way]
        cells += [f"{medians[way][0] / alone[0]:.2f}", f"{medians[way][1] / alone[1]:.2f}", f"{size / calls:.2f}"]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="the build tree")
    parser.add_argument("--runs", type=int, default=5, help="runs of each program in each way")
    parser.add_argument("--only", default="", help="names of workloads, separated by commas")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    build = arguments.build.resolve()
    strata = build / "bin" / "strata"
    chosen = choose(workloads(build), arguments.only, parser)
    print("| program | calls | alone | no stacks: time | CPU | bytes a call | stacks: time | CPU | bytes a call |")
    print("|---|" + "--:|" * 8, flush=True)
    with tempfile.TemporaryDirectory(prefix="strata-recording-") as folder:
        for workload in chosen:
            print(row(workload, *measure(strata, workload, arguments.runs, pathlib.Path(folder))), flush=True)


if __name__ == "__main__":
    main()
