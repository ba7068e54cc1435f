#!/usr/bin/env python3
"""Reads a document, forgets it, and shows after each step where the memory is.

usage: PYTHONMALLOC=malloc strata run -- python3 where_memory_is.py [PROFILE]
"""
import gc
import json
import sys

import strata


def show(step):
    now = strata.statistics()
    live, held = now["bytes"]["live"], now["limits"]["held_bytes"]
    print(f"{step:<22}{live / 2**20:6.1f} MiB live {held / 2**20:6.1f} MiB held")


def parse():
    text = json.dumps([{"name": f"entry {i}", "values": [i, i + 0.5, str(i)]} for i in range(50_000)])
    return json.loads(text)


def main():
    show("at the start")
    if len(sys.argv) > 1:
        with strata.profile(sys.argv[1]):
            document = parse()
    else:
        document = parse()
    show(f"{len(document)} entries")
    del document
    gc.collect()
    show("forgotten")
    strata.release_memory()
    show("idle memory returned")


if __name__ == "__main__":
    main()
