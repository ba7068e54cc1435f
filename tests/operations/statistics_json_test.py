#!/usr/bin/env python3
"""Every state of a process has statistics that are valid by docs/stats-schema.json and that add up.

usage: statistics_json_test.py --program states      (the program prints "<state> <json>" per line)
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    program = parser.parse_args().program
    rules = json.loads((ROOT / "docs" / "stats-schema.json").read_text())
    out = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout
    states = dict(line.split(" ", 1) for line in out.splitlines())
    assert list(states) == STATES, list(states)
    breaches = []
    documents = {state: json.loads(text) for state, text in states.items()}
    for state, stats in documents.items():
        breaches += [f"{state}: {breach}" for breach in schema.check(stats, rules) + sums_that_fail(stats)]
        if stats["name"] != "malloc":
            breaches.append(f"{state}: the process's malloc has the name {stats['name']}")
        broken = dict(stats, mapped=1)
        if not schema.check(broken, rules):
            breaches.append(f"{state}: the schema allows what it should not")
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
    elif any(count for of_state in guards.values() for count in of_state.values()):
        breaches.append(f"guards that nobody asked for: {guards}")
    for state in ("half_released", "released", "all_released"):
        if documents[state]["given_back_bytes"] <= documents["started"]["given_back_bytes"]:
            breaches.append(f"{state}: nothing was given back")
    print("\n".join(breaches))
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
