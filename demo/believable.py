#!/usr/bin/env python3
"""Compares replays with the programs that were recorded: peak memory, and the order of the allocators in time.

usage: demo/believable.py [--build DIR] [--runs N] [--only NAME,...] [--allocators NAME[=FILE],...]

Records each program of the demo once, above glibc. Then the program runs, and its trace is replayed, under every
allocator, in turns. Prints two tables in Markdown. Standard library only.

Memory is the anonymous memory of the process that made most calls, without its stack and the data of its files, at
its largest (looked at 1000 times a second); of the replay, what the process grew by. Time is CPU time: of the command
with all that it starts, and of the replay. Two allocators differ in the program if the slowest run of one is
faster than the fastest of the other and the medians are 2% apart.
"""
import argparse
import itertools
import json
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

POLL_S = 0.001
LEAST_DIFFERENCE = 1.02
TOLERANCE = 0.10


def kilobytes(text, field):
    found = re.search(rf"^{field}:\s+(\d+) kB", text, re.M)
    return int(found.group(1)) if found else 0


class Memory:
    """The largest anonymous memory, beyond stack and files, of a process of a session."""

    def __init__(self, session, program):
        self.session = session
        self.program = program[:15]  # as the kernel cuts it
        self.process = None
        self.largest = 0
        self.peak_bytes = 0

    def look(self):
        if self.process is None:
            self.process = self.find()
        if self.process is None:
            return
        try:
            anonymous = kilobytes((self.process / "status").read_text(), "RssAnon")
            if anonymous > self.largest:
                self.largest = anonymous
                self.peak_bytes = max(self.peak_bytes, 1024 * (anonymous - self.beside_heap()))
        except OSError:
            pass  # it has just ended

    def find(self):
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                stat = (folder / "stat").read_text()
                if int(stat.rsplit(")", 1)[1].split()[3]) == self.session and \
                        (folder / "comm").read_text().strip() == self.program:
                    return folder
            except (OSError, ValueError):
                continue
        return None

    def beside_heap(self):
        """Anonymous memory of mapped files, and the stack."""
        total = counted = 0
        for line in (self.process / "smaps").read_text().splitlines():
            words = line.split()
            if not words[0].endswith(":"):
                name = words[5] if len(words) > 5 else ""
                counted = name.startswith("/") or name == "[stack]"
            elif counted and words[0] == "Anonymous:":
                total += int(words[1])
        return total


def run_program(workload, library, program):
    """CPU seconds of the command, and the peak memory of the program."""
    environment = {**os.environ, **workload.environment}
    if library:
        environment["LD_PRELOAD"] = str(library)
    child = subprocess.Popen(workload.command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, start_new_session=True)
    memory = Memory(child.pid, program)
    while True:
        ended, status, usage = os.wait4(child.pid, os.WNOHANG)
        if ended:
            child.returncode = os.waitstatus_to_exitcode(status)
            break
        memory.look()
        time.sleep(POLL_S)
    if child.returncode != 0:
        sys.exit(f"believable: {workload.name} ended with {child.returncode} under {library or 'glibc'}")
    return usage.ru_utime + usage.ru_stime, memory.peak_bytes


def record(strata, workload, folder):
    """The trace of the process with most calls, and the name of its program."""
    system = ["--allocator", f"libc={libc_path()}"] if workload.own_malloc else []
    path = folder / f"{workload.name}.trace"
    subprocess.run([strata, "record", "--stacks", "off", *system, "-o", path, "--", *workload.command], check=True,
                   env={**os.environ, **workload.environment}, stdin=subprocess.DEVNULL, capture_output=True)
    trace = max(folder.glob(f"{workload.name}.trace*"), key=lambda file: file.stat().st_size)
    info = subprocess.run([strata, "trace", "info", trace], check=True, capture_output=True, text=True).stdout
    command = re.search(r"^command\s+(\S+)", info, re.M).group(1)
    return trace, pathlib.Path(command).name


def replay(strata, trace, name, library, options):
    """CPU seconds, what the process grew by, and what lived at most."""
    contender = f"{name}={library}" if library else name
    output = subprocess.run([strata, "replay", trace, "--allocators", contender, "--runs", "1", "--sample-rate", "0",
                             "--quiet", "--json", "-", *options], check=True, capture_output=True, text=True).stdout
    metrics = json.loads(output)["rows"][0]["metrics"]
    return tuple(metrics[metric]["median"] for metric in ("cpu_s", "peak_gain_bytes", "peak_live_bytes"))


def measure(strata, workload, contenders, runs, options, folder):
    trace, program = record(strata, workload, folder)
    real = {name: [] for name in contenders}
    replayed = {name: [] for name in contenders}
    for run in range(runs):
        print(f"{workload.name}: run {run + 1} of {runs}", file=sys.stderr, flush=True)
        for name, library in contenders.items():
            preloaded = library or (libc_path() if workload.own_malloc else None)
            real[name].append(run_program(workload, preloaded, program))
            replayed[name].append(replay(strata, trace, name, None if name == "strata" else library, options))
    return real, replayed


def medians(runs):
    return [statistics.median(values) for values in zip(*runs)]


def memory_row(workload, real, replayed):
    cells = []
    for name in real:
        (_, peak), (_, gain, live) = medians(real[name]), medians(replayed[name])
        note = "" if abs(gain / peak - 1) <= TOLERANCE else " off"
        cells.append(f"{peak / 2**20:.1f} / {gain / 2**20:.1f}{note}")
    return f"| {workload.name} | {live / 2**20:.1f} | {' | '.join(cells)} |"


def pairs_that_differ(real):
    for one, other in itertools.combinations(real, 2):
        fast, slow = sorted((one, other), key=lambda name: medians(real[name])[0])
        apart = max(run[0] for run in real[fast]) < min(run[0] for run in real[slow])
        if apart and medians(real[slow])[0] >= LEAST_DIFFERENCE * medians(real[fast])[0]:
            yield fast, slow


def order_row(workload, real, replayed):
    pairs = list(pairs_that_differ(real))
    wrong = [f"{fast} before {slow}" for fast, slow in pairs
             if medians(replayed[fast])[0] >= medians(replayed[slow])[0]]
    times = " | ".join(f"{medians(real[name])[0]:.2f} / {medians(replayed[name])[0]:.2f}" for name in real)
    return f"| {workload.name} | {times} | {len(pairs)} | {', '.join(wrong) or 'none'} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="the build tree")
    parser.add_argument("--runs", type=int, default=5, help="runs of each program under each allocator")
    parser.add_argument("--only", default="", help="names of workloads, separated by commas")
    parser.add_argument("--allocators", default="system,strata", help="NAME[=FILE],... (default: system,strata)")
    parser.add_argument("--touch", default="written", help="as for strata replay")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    build = arguments.build.resolve()
    strata = build / "bin" / "strata"
    contenders = dict((part.split("=", 1) + [None])[:2] for part in arguments.allocators.split(","))
    if "strata" in contenders:
        contenders["strata"] = str(build / "lib" / "libstrata.so")
    unknown = [name for name, library in contenders.items() if name != "system" and not library]
    if unknown:
        parser.error(f"{unknown[0]} needs its library: {unknown[0]}=/path/lib.so")
    chosen = choose(workloads(build), arguments.only, parser)
    memory, order = [], []
    with tempfile.TemporaryDirectory(prefix="strata-believable-") as folder:
        for workload in chosen:
            real, replayed = measure(strata, workload, contenders, arguments.runs, ["--touch", arguments.touch],
                                     pathlib.Path(folder))
            memory.append(memory_row(workload, real, replayed))
            order.append(order_row(workload, real, replayed))
    print(f"| program | live | {' | '.join(contenders)} |\n|---|" + "--:|" * (len(contenders) + 1))
    print("\n".join(memory))
    print(f"\n| program | {' | '.join(contenders)} | pairs that differ | ordered otherwise |")
    print("|---|" + "--:|" * (len(contenders) + 1) + "---|")
    print("\n".join(order))


if __name__ == "__main__":
    main()
