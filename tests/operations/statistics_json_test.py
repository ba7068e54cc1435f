#!/usr/bin/env python3
"""Every state of a process, or of a heap, has statistics that are valid by docs/stats-schema.json and that add up.

usage: statistics_json_test.py --program states      (the program prints "<state> <json>" per line)
       statistics_json_test.py --heaps heap_states   (it prints "<heap>.<state> <json>" per line)
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import schema  # noqa: E402

STATES = """started allocated half_freed half_released freed released threads_wait threads_wait_released
    threads_ended all_released""".split()
HEAPS = "basic frees full guarded limited soft huge_pages placed profiled".split()
HEAP_STATES = """unused allocated half_freed half_released freed released threads_wait threads_ended reset""".split()


def sums_that_fail(stats):
    """What must hold between the figures of one document."""
    total, caches, transfer = stats["bytes"], stats["thread_caches"], stats["transfer_caches"]
    spans, pages, huge, limits = stats["spans"], stats["page_heap"], stats["huge"], stats["limits"]
    guards, waiting = stats["guards"], stats["quarantine"]["bytes"]
    classes, waits = stats["classes"], stats["lock_waits"]
    small_live = sum(c["live"] * c["object_bytes"] for c in classes)
    sums = {
        "mapped": (total["mapped"],
                   total["live"] + total["cached"] + total["free"] + total["metadata"] + total["returned"]),
        "live": (total["live"], small_live + pages["large_bytes"] + huge["live_bytes"] + guards["live_bytes"]),
        "cached": (total["cached"], caches["bytes"] + transfer["bytes"] + waiting),
        "cached by class": (total["cached"], sum(c["cached"] * c["object_bytes"] for c in classes)),
        "free": (total["free"], spans["free_bytes"] + spans["tail_bytes"] - spans["hole_bytes"]
                 + pages["idle_bytes"] + huge["kept_bytes"] + guards["waiting_bytes"]),
        "free by class": (spans["free_bytes"], sum(c["free"] * c["object_bytes"] for c in classes)),
        "returned": (total["returned"], pages["clean_bytes"] + spans["hole_bytes"] + guards["reserved_bytes"]
                     - guards["live_bytes"] - guards["waiting_bytes"]),
        "spans": (spans["bytes"], small_live + total["cached"] + spans["free_bytes"] + spans["tail_bytes"]),
        "kept spans": (min(spans["kept_bytes"], spans["bytes"]), spans["kept_bytes"]),
        "waits": (waits["total"], sum(waits.values()) - waits["total"]),
        "waits by class": (min(waits["central"], sum(c["waits"] + c["transfer_waits"] for c in classes)),
                           sum(c["waits"] + c["transfer_waits"] for c in classes)),
        "held": (limits["held_bytes"], total["mapped"] - total["returned"]),
    }
    return [f"{name}: {left} is not {right}" for name, (left, right) in sums.items() if left != right]


def documents_of(program, states):
    """What it prints, by state, in their order; and all that is wrong with each by itself."""
    rules = json.loads((ROOT / "docs" / "stats-schema.json").read_text())
    out = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout
    documents = {state: json.loads(text) for state, text in (line.split(" ", 1) for line in out.splitlines())}
    assert list(documents) == states, list(documents)
    breaches = []
    for state, stats in documents.items():
        breaches += [f"{state}: {breach}" for breach in schema.check(stats, rules) + sums_that_fail(stats)]
        name = state.split(".")[0] if "." in state else "malloc"
        if stats["name"] != name:
            breaches.append(f"{state}: the name is {stats['name']}")
        broken = dict(stats, mapped=1)
        if not schema.check(broken, rules):
            breaches.append(f"{state}: the schema allows what it should not")
    return documents, breaches


def breaches_of_heaps(program):
    documents, breaches = documents_of(program, [f"{heap}.{state}" for heap in HEAPS for state in HEAP_STATES])
    for heap in HEAPS:
        live, mapped = ({state: documents[f"{heap}.{state}"]["bytes"][figure] for state in HEAP_STATES}
                        for figure in ("live", "mapped"))
        if mapped["unused"] != 0 or any(live[state] for state in ("freed", "released", "threads_ended", "reset")):
            breaches.append(f"{heap}: without a block there are live {live}, mapped {mapped}")
        least = 4 if heap == "limited" else 20
        if not live["allocated"] > max(least * 2**20, live["half_freed"]) or live["threads_wait"] < 3 * 100 * 300:
            breaches.append(f"{heap}: live are {live}")
        caches = documents[f"{heap}.threads_wait"]["thread_caches"]["threads"]
        if caches != (0 if heap == "full" else 4):
            breaches.append(f"{heap}: {caches} threads have caches")
    for heap, figure in {"guarded": "guards", "full": "quarantine", "huge_pages": "page_heap"}.items():
        changed = documents[f"{heap}.half_freed"][figure]
        usual = documents["basic.half_freed"][figure]
        if changed == usual:
            breaches.append(f"{heap}: {figure} is that of any heap")
    if documents["limited.allocated"]["limits"]["hard_refusals"] == 0:
        breaches.append("limited: nothing was refused")
    return breaches


def breaches_of_malloc(program):
    documents, breaches = documents_of(program, STATES)
    live = {state: stats["bytes"]["live"] for state, stats in documents.items()}
    mib = 2**20
    for more, less, by in [("allocated", "started", 25 * mib), ("allocated", "half_freed", 7 * mib),
                           ("half_freed", "freed", 8 * mib), ("threads_wait", "threads_ended", 30 * mib)]:
        if live[more] < live[less] + by:
            breaches.append(f"live {more} {live[more]} is not far above {less} {live[less]}")
    is_full = os.environ.get("STRATA_CHECKS") == "full"
    if documents["threads_wait"]["thread_caches"]["threads"] != (0 if is_full else 5):
        breaches.append("the threads that wait are not counted")
    quarantine = {state: stats["quarantine"]["bytes"] for state, stats in documents.items()}
    if (quarantine["freed"] > 100_000) != is_full:
        breaches.append(f"{quarantine['freed']} bytes are in the quarantine")
    if quarantine["released"] != 0 or max(quarantine.values()) > 10 * mib:
        breaches.append(f"the quarantine has no bounds: {quarantine}")
    guards = {state: stats["guards"] for state, stats in documents.items()}
    if os.environ["STRATA_GUARD_RATE"] != "0":
        if guards["allocated"]["objects"] <= guards["freed"]["objects"]:
            breaches.append(f"guarded objects are not counted: {guards}")
        if not guards["freed"]["live_bytes"] < guards["allocated"]["live_bytes"] <= 16 * mib:
            breaches.append(f"pages of guarded objects are not counted: {guards}")
    elif not is_full and any(count for of_state in guards.values() for count in of_state.values()):
        breaches.append(f"guards that nobody asked for: {guards}")
    for state in ("half_released", "released", "all_released"):
        if documents[state]["given_back_bytes"] <= documents["started"]["given_back_bytes"]:
            breaches.append(f"{state}: nothing was given back")
    return breaches


def main():
    parser = argparse.ArgumentParser()
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--program")
    which.add_argument("--heaps")
    arguments = parser.parse_args()
    breaches = breaches_of_heaps(arguments.heaps) if arguments.heaps else breaches_of_malloc(arguments.program)
    print("\n".join(breaches))
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
