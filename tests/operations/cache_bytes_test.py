#!/usr/bin/env python3
"""All thread caches together hold at most what STRATA_CACHE_BYTES says.

usage: cache_bytes_test.py --program states      (it prints "<state> <json>" per line)
"""
import argparse
import json
import os
import subprocess
import sys
import unittest

PROGRAM = ""


def most_in_caches(**options):
    """The largest sum of any state of the program."""
    done = subprocess.run([PROGRAM], env={**os.environ, **options}, check=True, capture_output=True, text=True, timeout=300)
    return max(json.loads(line.split(" ", 1)[1])["thread_caches"]["bytes"] for line in done.stdout.splitlines())


class CacheBytes(unittest.TestCase):
    def test_no_state_has_more(self):
        for option, limit in (("0", 0), ("64k", 64 << 10), ("256k", 256 << 10), ("1048576", 1 << 20)):
            with self.subTest(option=option):
                self.assertLessEqual(most_in_caches(STRATA_CACHE_BYTES=option), limit)

    def test_by_default_they_have_more(self):
        self.assertGreater(most_in_caches(), 1 << 20)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    arguments, rest = parser.parse_known_args()
    PROGRAM = arguments.program
    unittest.main(argv=[sys.argv[0], *rest])
