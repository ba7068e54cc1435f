#!/usr/bin/env python3
"""Builds the malloc for musl, and runs a C program of musl on it, linked statically and preloaded.

usage: musl_test.py --source DIR --build DIR
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}


def run(command, **environment):
    return subprocess.run([str(part) for part in command], env={**PLAIN, **environment}, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def build(source, folder):
    flags = ["-std=gnu11", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-Wno-use-after-free"]
    program, library = HERE / "musl_program.c", folder / "lib"
    for command in (
            ["cmake", "--preset", "musl", "-S", source, "-B", folder],
            ["cmake", "--build", folder, "--target", "strata_shared", "strata_static"],
            ["musl-gcc", *flags, program, "-o", folder / "preloaded"],
            ["musl-gcc", *flags, "-static", program, library / "libstrata.a", "-o", folder / "static"]):
        done = run(command)
        if done.returncode != 0:
            raise SystemExit(f"{done.args}\n{done.stdout}{done.stderr}\nended with status {done.returncode}")
    return {"static": ([folder / "static"], {}),
            "preloaded": ([folder / "preloaded"], {"LD_PRELOAD": str(library / "libstrata.so")})}


class OnMusl(unittest.TestCase):
    def in_both_ways(self, argument, **options):
        return [(way, run([*command, argument], **environment, **options))
                for way, (command, environment) in WAYS.items()]

    def expect_it_works(self, **options):
        for way, done in self.in_both_ways("works", **options):
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "all is well\n", ""), way)

    def test_threads_forks_and_every_function_work(self):
        self.expect_it_works()

    def test_they_work_while_idle_memory_goes_back(self):
        self.expect_it_works(STRATA_RELEASE_DELAY_MS="1")

    def test_they_work_under_full_checks(self):
        self.expect_it_works(STRATA_CHECKS="full")

    def test_they_work_beside_guard_pages(self):
        self.expect_it_works(STRATA_GUARD_RATE="100")

    def test_a_double_free_dies_with_its_sentence(self):
        for way, done in self.in_both_ways("double_free"):
            self.assertEqual(done.returncode, -signal.SIGABRT, way + ": " + done.stderr)
            self.assertRegex(done.stderr, "^strata: double free of 0x[0-9a-f]+", way)

    def test_statistics_are_printed_at_exit(self):
        for way, done in self.in_both_ways("works", STRATA_STATS="exit"):
            self.assertEqual(done.returncode, 0, way + ": " + done.stderr)
            self.assertRegex(done.stderr, "(?m)^strata: mapped +[0-9]+ ", way)

    def test_the_library_needs_nothing_but_musl(self):
        done = run(["readelf", "--dynamic", WAYS["preloaded"][1]["LD_PRELOAD"]])
        self.assertEqual(re.findall(r"\(NEEDED\).*\[(.*)\]", done.stdout), ["libc.so"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    WAYS = build(arguments.source, arguments.build)
    unittest.main(argv=[__file__])
