#!/usr/bin/env python3
"""Builds the malloc for musl, and runs programs of musl on it, linked statically and preloaded.

Debian has no C++ library for musl: the C++ program takes that of GCC, which is made for glibc, and
libstdcxx_on_musl.cpp has what it misses.

usage: musl_test.py --source DIR --build DIR
"""
import argparse
import os
import pathlib
import re
import shlex
import signal
import subprocess
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}


def run(command, **environment):
    return subprocess.run([str(part) for part in command], env={**PLAIN, **environment}, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def must(*command):
    done = run(command)
    if done.returncode != 0:
        raise SystemExit(f"{done.args}\n{done.stdout}{done.stderr}\nended with status {done.returncode}")
    return done.stdout


def build_in_c(folder, archive):
    """The program, statically with the archive and without it."""
    command = ["musl-gcc", "-std=gnu11", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-Wno-use-after-free",
               HERE / "musl_program.c"]
    must(*command, "-static", archive, "-o", folder / "static")
    must(*command, "-o", folder / "preloaded")


def build_in_cxx(folder, archive):
    """The same in C++, compiled with the flags of cmake/musl.cmake."""
    flags = re.search("^CMAKE_CXX_FLAGS:STRING=(.*)$", (folder / "CMakeCache.txt").read_text(), re.M)[1]
    objects = [folder / f"{name}.o" for name in ("musl_program", "libstdcxx_on_musl")]
    for name in objects:
        must("g++", *shlex.split(flags), "-std=c++17", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-c",
             HERE / f"{name.stem}.cpp", "-o", name)
    parts = [must("g++", f"-print-file-name={name}").strip() for name in ("libstdc++.a", "libgcc_eh.a", "libgcc.a")]
    library = ["-Wl,--eh-frame-hdr", "-Wl,--start-group", *parts, "-lc", "-Wl,--end-group"]
    must("musl-gcc", "-static", *objects, archive, *library, "-o", folder / "static_cxx")
    must("musl-gcc", *objects, *library, "-o", folder / "preloaded_cxx")


def build(source, folder):
    """The ways to run a program on the malloc: by language and name, a command and its environment."""
    must("cmake", "--preset", "musl", "-S", source, "-B", folder)
    must("cmake", "--build", folder)
    must("cmake", "--install", folder, "--prefix", folder / "installed")
    libraries = folder / "installed/lib"
    archive, preload = libraries / "libstrata.a", {"LD_PRELOAD": str(libraries / "libstrata.so")}
    must("musl-gcc", "-std=c11", "-static", "-I", folder / "installed/include", HERE.parent / "consumer/heap_program.c",
         libraries / "libstrata_heap.a", "-o", folder / "heap_program")
    build_in_c(folder, archive)
    build_in_cxx(folder, archive)
    return {language: {"static": ([folder / f"static{suffix}"], {}),
                       "preloaded": ([folder / f"preloaded{suffix}"], preload)}
            for language, suffix in (("C", ""), ("C++", "_cxx"))}


class OnMusl(unittest.TestCase):
    def in_both_ways(self, argument, language="C", **options):
        return [(way, run([*command, argument], **environment, **options))
                for way, (command, environment) in WAYS[language].items()]

    def expect_it_works(self, **options):
        for language in WAYS:
            for way, done in self.in_both_ways("works", language, **options):
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "all is well\n", ""), (language, way))

    def test_threads_forks_and_every_function_work(self):
        self.expect_it_works()

    def test_they_work_while_idle_memory_goes_back(self):
        self.expect_it_works(STRATA_RELEASE_DELAY_MS="1")

    def test_they_work_under_full_checks(self):
        self.expect_it_works(STRATA_CHECKS="full")

    def test_they_work_beside_guard_pages(self):
        self.expect_it_works(STRATA_GUARD_RATE="100")

    def test_heaps_of_ones_own_work(self):
        done = run([FOLDER / "heap_program"])
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "consumer ok\n", ""))

    def test_a_double_free_dies_with_its_sentence(self):
        for way, done in self.in_both_ways("double_free"):
            self.assertEqual(done.returncode, -signal.SIGABRT, way + ": " + done.stderr)
            self.assertRegex(done.stderr, "^strata: double free of 0x[0-9a-f]+", way)

    def test_statistics_are_printed_at_exit(self):
        for language in WAYS:
            for way, done in self.in_both_ways("works", language, STRATA_STATS="exit"):
                self.assertEqual(done.returncode, 0, way + ": " + done.stderr)
                self.assertRegex(done.stderr, "(?m)^strata: mapped +[0-9]+ ", way)

    def test_the_library_needs_nothing_but_musl(self):
        done = run(["readelf", "--dynamic", WAYS["C"]["preloaded"][1]["LD_PRELOAD"]])
        self.assertEqual(re.findall(r"\(NEEDED\).*\[(.*)\]", done.stdout), ["libc.so"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    FOLDER = arguments.build
    WAYS = build(arguments.source, arguments.build)
    unittest.main(argv=[__file__])
