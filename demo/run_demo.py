#!/usr/bin/env python3
"""Runs real programs under glibc, Strata and every other allocator of this machine; prints one table.

usage: demo/run_demo.py [--build DIR] [--runs N] [--more] [--only NAME,...] [--allocators NAME[=FILE],...] [--library FILE]

Each workload is one `strata compare`; this script only chooses them and joins their results, which it
also leaves in build/demo/results.json. Standard library only.
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKLOADS = ROOT / "demo" / "workloads"
METRICS = ("elapsed_s", "cpu_s", "peak_rss_bytes")
TIMEOUT_S = "60"  # ten times what the slowest run should need


class Workload:
    def __init__(self, name, sentence, command, needs=None, environment=None, own_malloc=False):
        self.name = name
        self.sentence = sentence
        self.command = [str(word) for word in command]
        self.needs = needs or self.command[0]
        self.environment = environment or {}
        # Linked with an allocator of its own: glibc's must be preloaded like any other.
        self.own_malloc = own_malloc


def workloads(build):
    return [
        Workload("python", "CPython: dicts, strings, objects, JSON (PYTHONMALLOC=malloc)",
                 [sys.executable, WORKLOADS / "python_objects.py"], environment={"PYTHONMALLOC": "malloc"}),
        Workload("sqlite3", "sqlite3: a database in memory, indexes, joins, groups",
                 ["sqlite3", "-batch", "-bail", ":memory:", f".read '{WORKLOADS / 'queries.sql'}'"]),
        Workload("g++", "g++: compiles a file full of templates",
                 ["g++", "-std=c++20", "-O1", "-c", "-o", "/dev/null", WORKLOADS / "templates.cpp"]),
        Workload("perl", "perl: hashes of hashes, growing strings, sorting", ["perl", WORKLOADS / "words.pl"]),
        Workload("redis", "redis-server under redis-benchmark on loopback", [WORKLOADS / "redis.sh"],
                 needs="redis-server", own_malloc=True),
        Workload("threads", "eight threads that hand objects to each other",
                 [build / "demo" / "threads_handover"]),
    ]


def more_workloads(build):
    """Programs that bootstrap does not install: those that are there are measured."""
    return [
        Workload("phases", "CPython: twelve short phases, each with other sizes (PYTHONMALLOC=malloc)",
                 [sys.executable, WORKLOADS / "phases.py"], environment={"PYTHONMALLOC": "malloc"}),
        Workload("jq", "jq: groups of 60,000 objects", ["jq", "-n", "-f", WORKLOADS / "groups.jq"]),
        Workload("gawk", "gawk: counts a million words", ["gawk", "-f", WORKLOADS / "counts.awk"]),
        Workload("tcl", "Tcl: dictionaries of lists", ["tclsh", WORKLOADS / "lists.tcl"]),
        Workload("php", "PHP: arrays, serialized and read (USE_ZEND_ALLOC=0)", ["php", "-n", WORKLOADS / "arrays.php"],
                 environment={"USE_ZEND_ALLOC": "0"}),
        Workload("git", "git: what 600 commits changed", ["git", "-C", ROOT, "log", "--stat", "-600"]),
        Workload("clang", "Clang: compiles the file full of templates",
                 ["clang++", "-std=c++20", "-O1", "-c", "-o", "/dev/null", WORKLOADS / "templates.cpp"]),
        # Debian's: the one that rustup installs has a malloc of its own, which no library replaces.
        Workload("rustc", "rustc: compiles a small library",
                 ["/usr/bin/rustc", "-O", "--crate-type", "lib", "--emit", "obj", "-o", build / "demo" / "types.o", WORKLOADS / "types.rs"]),
    ]


def wants_colour():
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text, code):
    return f"\033[{code}m{text}\033[0m" if wants_colour() else text


def libc_path():
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("/libc.so.6"):
            return line.split(maxsplit=5)[5]
    return None


def chosen_by_user(arguments):
    """The options that are passed on to `strata compare`."""
    options = ["--library", arguments.library] if arguments.library else []
    return options + (["--allocators", arguments.allocators] if arguments.allocators else [])


def find_contenders(strata, arguments):
    """{name: library or None} of what `strata compare` would take; its refusal ends the demo."""
    command = [str(strata), "compare", "--runs", "1", "--warmup", "0", "--quiet", "--json", "-"]
    command += chosen_by_user(arguments)
    done = subprocess.run([*command, "--", "true"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    if not done.stdout:
        sys.exit(done.returncode or 1)
    return {row["contender"]: row.get("library") for row in json.loads(done.stdout)["rows"]}


def allocators_for(workload, arguments, known):
    """As the user chose; glibc as a library like any other where the program brings its own."""
    libc = libc_path()
    if not workload.own_malloc or not libc:
        return chosen_by_user(arguments)
    parts = [f"system={libc}"]
    parts += [f"{name}={library}" for name, library in known.items() if library]
    return ["--allocators", ",".join(parts)]


def measure(workload, strata, arguments, known, path):
    """One `strata compare`; returns its exit status. Ctrl-C reaches it, and it still writes its results."""
    command = [str(strata), "compare", "--scenario", workload.name, "--runs", str(arguments.runs),
               "--warmup", "0", "--timeout", TIMEOUT_S, "--json", str(path)]
    command += [*allocators_for(workload, arguments, known), "--", *workload.command]
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                              env={**os.environ, **workload.environment}).returncode
    finally:
        signal.signal(signal.SIGINT, before)


def median(row, metric):
    return row["metrics"][metric]["median"]


def seconds(value):
    return f"{value:.3f} s"


def mebibytes(value):
    return f"{value / 2**20:.1f} MiB"


def line(name, cells):
    return f"  {name:<11}" + "".join(f"{value:>13}{ratio:>7}" for value, ratio in cells)


def print_group(rows):
    baseline = next((row for row in rows if row["contender"] == "system" and row["ok"]), None)
    good = [row for row in rows if row["ok"]]
    for row in rows:
        name = row["contender"]
        if not row["ok"]:
            print(f"  {name:<11}   " + styled(f"failed: {row['reason']}", "31"))
            continue
        cells = []
        for metric, show in zip(METRICS, (seconds, seconds, mebibytes)):
            value = median(row, metric)
            ratio = f"{value / median(baseline, metric):.2f}" if baseline else ""
            cells.append((show(value), ratio))
        marks = [word for word, metric in (("fastest", "elapsed_s"), ("leanest", "peak_rss_bytes"))
                 if len(good) > 1 and median(row, metric) == min(median(r, metric) for r in good)]
        text = line(name, cells)
        print((styled(text, "1") if name == "strata" else text)
              + ("  " + styled(", ".join(marks), "32") if marks else ""))


def print_means(groups):
    """Over all workloads, how many times glibc's time and memory: 1.00 is glibc."""
    names = []
    for rows in groups.values():
        names += [row["contender"] for row in rows if row["contender"] not in names]
    print(styled("all workloads, geometric means of the ratios", "1"))
    for name in names:
        ratios = {metric: [] for metric in METRICS}
        for rows in groups.values():
            by_name = {row["contender"]: row for row in rows if row["ok"]}
            if name in by_name and "system" in by_name:
                for metric in METRICS:
                    ratios[metric].append(median(by_name[name], metric) / median(by_name["system"], metric))
        count = len(ratios[METRICS[0]])
        if count == 0:
            print(f"  {name:<11}   " + styled("completed no workload", "31"))
            continue
        cells = [("", f"{math.exp(sum(map(math.log, ratios[metric])) / count):.2f}") for metric in METRICS]
        text = line(name, cells)
        missing = "" if count == len(groups) else styled(f"  {count} of {len(groups)} workloads", "31")
        print((styled(text, "1") if name == "strata" else text) + missing)


def print_table(results, sentences, skipped):
    machine = results["machine"]
    print()
    print(styled("Medians, each with its ratio to glibc's malloc (system). Lower is better.", "1"))
    print(styled(f"{machine['cores']} x {machine['cpu']}, {machine['memory_bytes'] / 2**30:.1f} GiB, "
                 f"{machine.get('distribution', machine['kernel'])}", "2"))
    print()
    print(styled(line("", [("time", "ratio"), ("CPU", "ratio"), ("peak RSS", "ratio")]), "2"))
    groups = {}
    for row in results["rows"]:
        groups.setdefault(row["scenario"], []).append(row)
    for name, rows in groups.items():
        print(styled(sentences[name], "1"))
        print_group(rows)
        print()
    for workload in skipped:
        print(styled(f"{workload.name}: skipped, there is no {workload.needs} on this machine\n", "31"))
    print_means(groups)


def print_contenders(results, are_chosen):
    print()
    seen = {}
    for row in results["rows"]:
        seen.setdefault(row["contender"], row.get("version", ""))
    names = ", ".join(f"{name} ({version})" if version else name for name, version in seen.items())
    print(textwrap.fill(f"Allocators: {names}", width=96, break_on_hyphens=False))
    known = ("jemalloc", "mimalloc", "tcmalloc", "tbbmalloc")
    missing = [name for name in known if name not in seen]
    if missing and not are_chosen:
        print("Not on this machine: " + ", ".join(missing))


def choose(known, only, parser):
    """The workloads that --only names, or all of them; ends with a sentence where one has no such name."""
    names = only.split(",") if only else [workload.name for workload in known]
    unknown = set(names) - {workload.name for workload in known}
    if unknown:
        parser.error(f"no workload {sorted(unknown)[0]}; there are {', '.join(workload.name for workload in known)}")
    return [workload for workload in known if workload.name in names]


def read_arguments():
    """What is asked for, and the workloads chosen by it; ends with a sentence where it is wrong. Needs nothing built."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release",
                        help="the build tree (default: build/release)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each program under each allocator")
    parser.add_argument("--more", action="store_true", help="other programs, too: those of eight that are installed")
    parser.add_argument("--only", default="", help="names of workloads, separated by commas")
    parser.add_argument("--allocators", help="allocators to compare, as for strata compare (default: all that are found)")
    parser.add_argument("--library", help="use this libstrata.so")
    arguments = parser.parse_args()
    if arguments.runs < 1:
        parser.error(f"--runs is {arguments.runs}; give at least 1")
    build = arguments.build.resolve()
    known = workloads(build) + (more_workloads(build) if arguments.more or arguments.only else [])
    return arguments, choose(known, arguments.only, parser)


def main():
    arguments, chosen = read_arguments()
    strata = arguments.build.resolve() / "bin" / "strata"
    if not strata.exists():
        sys.exit(f"there is no {strata}; build it first: cmake --preset release && cmake --build --preset release")
    skipped = [workload for workload in chosen if not shutil.which(workload.needs)]
    chosen = [workload for workload in chosen if workload not in skipped]

    folder = ROOT / "build" / "demo"
    folder.mkdir(parents=True, exist_ok=True)
    results = None
    known = find_contenders(strata, arguments)
    status = 0
    started = time.monotonic()
    for number, workload in enumerate(chosen, 1):
        print(f"[{number}/{len(chosen)}] {workload.sentence}", file=sys.stderr, flush=True)
        path = folder / f"{workload.name}.json"
        path.unlink(missing_ok=True)
        ended = measure(workload, strata, arguments, known, path)
        if path.exists():
            part = json.loads(path.read_text())
            if results is None:
                results = part
            else:
                results["rows"] += part["rows"]
        if ended not in (0, 1):  # bad input, or Ctrl-C: what there is is shown
            status = 128 - ended if ended < 0 else ended
            break
        status = max(status, ended)
    if results is None:
        return status or 1
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    print_table(results, {workload.name: workload.sentence for workload in chosen}, skipped)
    print_contenders(results, bool(arguments.allocators))
    print(f"Measured in {time.monotonic() - started:.0f} s; all numbers: {folder / 'results.json'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
