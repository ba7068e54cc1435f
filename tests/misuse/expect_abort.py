#!/usr/bin/env python3
"""Runs a program that misuses the malloc; it must die of SIGABRT with one exact sentence.

usage: expect_abort.py SENTENCE PROGRAM [ARGUMENT...]

SENTENCE is what follows "strata: " on standard error, with P for the address.
"""
import re
import resource
import signal
import subprocess
import sys


def main():
    sentence, command = sys.argv[1], sys.argv[2:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    run = subprocess.run(command, capture_output=True, text=True, timeout=30)
    said = re.sub(r"0x[0-9a-f]+", "P", run.stderr)
    print(run.stderr, end="")
    if run.returncode != -signal.SIGABRT:
        print(f"expected death by SIGABRT, got exit status {run.returncode}")
        return 1
    if said != f"strata: {sentence}\n":
        print(f"expected exactly: strata: {sentence}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
