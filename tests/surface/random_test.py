#!/usr/bin/env python3
"""Whether the addresses of a process are another process's, as STRATA_RANDOM says.

usage: random_test.py --library libstrata.so --places PROGRAM [unittest arguments]
"""
import argparse
import os
import subprocess
import sys
import unittest

LIBRARY = PLACES = None

STARTS = 64
REGION = 2 << 20
PAGE = 64 << 10
FIRST = 8 << 30
OS_PAGE = os.sysconf("SC_PAGE_SIZE")


def start(**environment):
    """The addresses that a start of the program prints."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}
    ran = subprocess.run([PLACES], capture_output=True, text=True, check=True, timeout=60,
                         env={**env, "LD_PRELOAD": LIBRARY, "STRATA_GUARD_RATE": "0", **environment})
    assert ran.stderr == "", ran.stderr
    return [int(line, 16) for line in ran.stdout.splitlines()]


class Random(unittest.TestCase):
    """How unlikely it is that a test of chance fails without a fault is said beside it."""

    @classmethod
    def setUpClass(cls):
        cls.starts = [start() for _ in range(STARTS)]

    def test_the_heap_lies_elsewhere_in_each_process(self):
        # 17 bits: each pair of starts meets with a chance of 2^-17. That five of the 2016 pairs do: below 2^-36.
        self.assertGreaterEqual(len({addresses[0] // REGION for addresses in self.starts}), STARTS - 4)

    def test_the_first_object_of_a_span_lies_on_any_of_its_os_pages(self):
        # 4 bits: that 64 starts leave out 9 or more of 16 pages has a chance of C(16, 7) (7/16)^64, below 2^-62.
        for place in range(3):
            pages = {addresses[place] % PAGE // OS_PAGE for addresses in self.starts}
            self.assertGreaterEqual(len(pages), min(8, PAGE // OS_PAGE))

    def test_the_classes_of_a_process_differ_in_where_they_begin(self):
        # Two classes begin on the same OS page of their spans in all of 64 starts: 16^-64.
        self.assertTrue(any(a[0] % PAGE // OS_PAGE != a[1] % PAGE // OS_PAGE for a in self.starts))

    def test_the_first_region_is_any_of_its_chunk(self):
        # 3 bits: that 64 starts use 3 or fewer of 8 regions has a chance of C(8, 3) (3/8)^64, below 2^-84.
        regions = {(addresses[0] - addresses[-1]) // REGION for addresses in self.starts}
        self.assertLessEqual(regions, set(range(8)))
        self.assertGreaterEqual(len(regions), 4)

    def test_a_seed_gives_the_same_addresses_in_every_process_and_another_seed_others(self):
        by_seed = {seed: [start(STRATA_RANDOM=seed) for _ in range(4)] for seed in ("1", "2", "4294967295")}
        for seed, starts in by_seed.items():
            self.assertEqual([starts[0]] * 4, starts, seed)
        self.assertEqual(len({starts[0][0] for starts in by_seed.values()}), 3)

    def test_off_means_the_same_addresses_from_the_first_place_upwards(self):
        starts = [start(STRATA_RANDOM="off") for _ in range(4)]
        self.assertEqual([starts[0]] * 4, starts)
        self.assertTrue(all(FIRST <= address < FIRST + REGION for address in starts[0]), starts[0])
        self.assertEqual(starts[0][-1], FIRST)

    def test_on_is_the_default(self):
        self.assertNotEqual(start(STRATA_RANDOM="on")[0], start(STRATA_RANDOM="off")[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--places", required=True)
    arguments, rest = parser.parse_known_args()
    LIBRARY, PLACES = arguments.library, arguments.places
    unittest.main(argv=[sys.argv[0], *rest])
