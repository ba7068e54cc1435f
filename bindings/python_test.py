#!/usr/bin/env python3
"""What the Python module says about the process that it runs in.

usage: python_test.py --library libstrata.so [unittest arguments]
"""
import argparse
import gzip
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PYTHON = pathlib.Path(__file__).resolve().parent / "python"
LIBRARY = None


def python(*arguments, preload=True):
    env = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}
    env.update(PYTHONPATH=str(PYTHON), PYTHONMALLOC="malloc", PYTHONDONTWRITEBYTECODE="1")
    if preload:
        env["LD_PRELOAD"] = LIBRARY
    return subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True)


class Module(unittest.TestCase):
    def expect(self, program, said):
        done = python("-c", "import strata\n" + program)
        self.assertEqual((done.returncode, done.stderr, done.stdout.strip()), (0, "", said))

    def test_statistics_count_what_the_program_holds(self):
        self.expect("before = strata.statistics()['bytes']['live']\n"
                    "kept = [bytes(1000) for _ in range(10_000)]\n"
                    "print(10_000_000 <= strata.statistics()['bytes']['live'] - before <= 13_000_000)", "True")

    def test_idle_memory_goes_back_on_demand(self):
        self.expect("kept = [bytes(100_000) for _ in range(500)]\n"
                    "full = strata.statistics()['limits']['held_bytes']\n"
                    "del kept\n"
                    "strata.release_memory()\n"
                    "print(full - strata.statistics()['limits']['held_bytes'] > 40_000_000)", "True")

    def test_options_have_their_values(self):
        self.expect("print({o['name']: o['value'] for o in strata.options()}['STRATA_CHECKS'])", "auto")

    def test_a_text_is_whole_however_long(self):
        self.expect("import os\n"
                    "os.environ['STRATA_PROFILE'] = '/' + 4000 * 'x'\n"
                    "option = next(o for o in strata.options() if o['name'] == 'STRATA_PROFILE')\n"
                    "print(len(option['value']), len(option['text']), option['state'])", "4001 4001 set")

    def test_a_mistaken_name_follows_the_options(self):
        self.expect("import os\n"
                    "os.environ['STRATA_CHEKS'] = 'full'\n"
                    "last = strata.options()[-1]\n"
                    "print(last['name'], last['state'], last['text'], repr(last['value']))", "STRATA_CHEKS unknown full ''")

    def test_a_block_has_a_usable_size(self):
        self.expect("import ctypes\n"
                    "c = ctypes.CDLL(None)\n"
                    "c.malloc.restype, c.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]\n"
                    "print(strata.usable_size(c.malloc(100)))", "112")

    def test_a_rate_that_is_none_is_refused(self):
        self.expect("try:\n"
                    "    with strata.profile('/nowhere', rate=0): pass\n"
                    "except ValueError as error: print(error)", "a rate of 0 bytes is none; use 1 to 1073741824")

    def test_a_path_is_any_that_the_system_takes(self):
        with tempfile.TemporaryDirectory(prefix="strata_python.") as folder:
            for path in b"bytes", "no-utf-8\udcff", pathlib.Path("path"):
                self.expect(f"import os; from pathlib import PosixPath; os.chdir({folder!r})\n"
                            f"with strata.profile({path!r}): pass\n", "")
            self.assertEqual(sorted(os.listdir(os.fsencode(folder))), [b"bytes", b"no-utf-8\xff", b"path"])

    def test_a_block_within_another_is_refused_and_the_outer_one_goes_on(self):
        with tempfile.TemporaryDirectory(prefix="strata_python.") as folder:
            profile = pathlib.Path(folder) / "outer"
            self.expect(f"with strata.profile({str(profile)!r}, rate=1):\n"
                        "    try:\n"
                        f"        with strata.profile({str(profile) + '3'!r}): pass\n"
                        "    except RuntimeError as error: print(error)\n"
                        "    kept = bytes(1_234_567)\n"
                        f"with strata.profile({str(profile) + '2'!r}): pass",
                        "a block is profiled already, and the process has one profile; end that block first")
            # The bytes as a varint; a header of Python's comes before them.
            allocated = re.findall(rb"[\xa0-\xff]\xad\x4b", gzip.decompress(profile.read_bytes()))
            self.assertTrue(allocated)

    def test_the_example_shows_memory_that_comes_and_goes_and_writes_a_profile(self):
        with tempfile.TemporaryDirectory(prefix="strata_python.") as folder:
            profile = pathlib.Path(folder) / "parse.pprof"
            done = python(PYTHON / "where_memory_is.py", profile)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            live = [float(n) for n in re.findall(r"([\d.]+) MiB live", done.stdout)]
            held = [float(n) for n in re.findall(r"([\d.]+) MiB held", done.stdout)]
            self.assertEqual(len(live), 4)
            self.assertGreater(live[1], live[0] + 10)
            self.assertLess(live[2], live[1] - 10)
            self.assertLess(held[3], held[1] - 10)
            self.assertIn(b"inuse_space", gzip.decompress(profile.read_bytes()))

    def test_without_strata_it_says_how_to_start(self):
        done = python("-c", "import strata", preload=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ImportError: this process does not run on Strata; start it with: strata run", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    options, rest = parser.parse_known_args()
    LIBRARY = options.library
    unittest.main(argv=[__file__, *rest])
