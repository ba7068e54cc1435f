#!/usr/bin/env python3
"""Runs a program that misuses the malloc; it must die of a signal with one exact sentence.

usage: expect_death.py [--signal NAME] [--then PATTERN] SENTENCE PROGRAM [ARGUMENT...]

SENTENCE is what follows "strata: " on standard error, with P for each address; "" for no word at all.
PATTERN is a regular expression for all the lines after it, if there are any. NAME is ABRT unless
it is given.
"""
import argparse
import re
import resource
import signal
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--signal", default="ABRT")
    parser.add_argument("--then", default="")
    parser.add_argument("sentence")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    run = subprocess.run(arguments.command, capture_output=True, text=True, timeout=300)
    said = re.sub(r"0x[0-9a-f]+", "P", run.stderr)
    print(run.stderr, end="")
    if run.returncode != -signal.Signals["SIG" + arguments.signal]:
        print(f"expected death by SIG{arguments.signal}, got exit status {run.returncode}")
        return 1
    sentence = f"strata: {arguments.sentence}\n" if arguments.sentence else ""
    if not said.startswith(sentence):
        print(f"expected exactly: {sentence}")
        return 1
    if not re.fullmatch(arguments.then, said.removeprefix(sentence), re.S):
        print(f"expected after it: {arguments.then!r}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
