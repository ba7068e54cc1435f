"""What `strata advise` predicts, beside what the advice saves when it is applied by hand.

usage: STRATA=build/release/bin/strata ADVISED=build/release/tests/advice/strata_advised \\
       python3 tests/advice/savings.py [RUNS [PROGRAM…]]

Records each program of advised.cpp, asks for advice, and runs the program without and with it, in turns. Prints a
table of medians: CPU time and peak memory, each without, with, and the saving; predicted by advise, and applied."""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

STRATA = os.environ["STRATA"]
ADVISED = os.environ["ADVISED"]
PROGRAMS = ("parser", "tree", "messages", "growing", "buffers", "pieces", "nothing")
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1}
AMOUNT = r"([\d.]+)\s(\S+?)"  # the space between number and unit does not break


def record(program, folder):
    trace = pathlib.Path(folder) / f"{program}.trace"
    if not trace.exists():
        subprocess.run([STRATA, "record", "-o", trace, "--", ADVISED, program, "plain"], check=True,
                       capture_output=True)
    return trace


def advise(trace, runs, *options):
    return subprocess.run([STRATA, "advise", trace, "--runs", str(runs), "--quiet", *options], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def predicted(answer):
    """(CPU time without, with), (memory without, with) of the first advice; None where there is none."""
    found = re.search(rf"CPU time {AMOUNT} to {AMOUNT}[,;] .*memory {AMOUNT} to {AMOUNT}[,.]", answer)
    if not answer.startswith("1. ") or not found:
        return None
    values = [float(number) * UNITS[unit] for number, unit in zip(found.groups()[::2], found.groups()[1::2])]
    return (values[0], values[1]), (values[2], values[3])


def run_once(program, way, *prefix):
    """The program's answer, its CPU time, and what it grew by; `prefix` are words before its command."""
    answer, measured = subprocess.run([*prefix, ADVISED, program, way], check=True, text=True,
                                      capture_output=True).stdout.splitlines()
    cpu_s, grown = measured.split()
    return answer, float(cpu_s), int(grown)


def applied(program, runs):
    """The same pairs as predicted(), of the program itself."""
    seen = {"plain": [], "advised": []}
    for _ in range(runs):
        for way in seen:
            seen[way].append(run_once(program, way)[1:])
    return tuple(tuple(statistics.median(run[metric] for run in seen[way]) for way in seen) for metric in (0, 1))


def row(program, who, pairs):
    (cpu, with_cpu), (memory, with_memory) = pairs
    return (f"| `{program}` | {who} | {1e3 * cpu:.0f} | {1e3 * with_cpu:.0f} | {1e3 * (cpu - with_cpu):.0f} | "
            f"{memory / 2**10:.0f} | {with_memory / 2**10:.0f} | {(memory - with_memory) / 2**10:.0f} |")


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    programs = sys.argv[2:] or PROGRAMS
    unknown = [name for name in programs if name not in PROGRAMS]
    if unknown:
        sys.exit(f"savings: no program '{unknown[0]}'; there are {', '.join(PROGRAMS)}")
    print("| program | | CPU, ms | with it | saved | memory, KiB | with it | saved |\n|---|---|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory(prefix="strata-savings-") as folder:
        for program in programs:
            prediction = predicted(advise(record(program, folder), runs))
            if prediction is None:
                print(f"| `{program}` | nothing is advised | | | | | | |", flush=True)
                continue
            print(row(program, "predicted", prediction))
            print(row(program, "applied", applied(program, runs)), flush=True)


if __name__ == "__main__":
    main()
