#!/usr/bin/env python3
"""Builds a program with each compiler, standard library and version of C++ of a consumer, and runs it.

usage: dialects_test.py --source DIR --build DIR --compilers NAME[,NAME] [unittest arguments]

A compiler is a program's name, and libc++ after a plus if it takes that library: g++,clang+++libc++.
The archives are those of the build, whatever compiled them.
"""
import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = BUILD = None
COMPILERS = []
FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wold-style-cast", "-Werror",
         "-pthread"]


def build_and_run(compiler, version, folder):
    """What went wrong, or nothing."""
    name = compiler.removesuffix("+libc++")
    program = folder / f"{compiler}.{version}".replace("/", "_")
    flags = [f"-std=c++{version}", *FLAGS, *(["-stdlib=libc++"] if compiler != name else [])]
    done = subprocess.run([name, *flags, "-I", SOURCE / "include", HERE / "dialects_program.cpp", "-o", program,
                           *(BUILD / "lib" / f"libstrata_{part}.a" for part in ("heap", "toolkit"))],
                          capture_output=True, text=True)
    if done.returncode == 0:
        done = subprocess.run([program], capture_output=True, text=True)
    said = done.stdout + done.stderr
    return "" if (done.returncode, said) == (0, "consumer ok\n") else f"{compiler}, C++{version}: {done.returncode}\n{said}"


class Dialects(unittest.TestCase):
    def test_each_builds_and_runs_the_program(self):
        with tempfile.TemporaryDirectory(prefix="strata_dialects.") as name:
            folder = pathlib.Path(name)
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                running = [pool.submit(build_and_run, compiler, version, folder)
                           for compiler in COMPILERS for version in ("17", "20", "2b")]
                wrong = [future.result() for future in running]
        self.assertEqual(len(wrong), 3 * len(COMPILERS))
        self.assertEqual([sentence for sentence in wrong if sentence], [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--compilers", type=lambda text: text.split(","), required=True)
    arguments, rest = parser.parse_known_args()
    SOURCE, BUILD, COMPILERS = arguments.source.resolve(), arguments.build.resolve(), arguments.compilers
    unittest.main(argv=[__file__, *rest])
