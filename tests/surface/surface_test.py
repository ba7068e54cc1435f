#!/usr/bin/env python3
"""What a user of the shared library sees of it from outside.

usage: surface_test.py --library libstrata.so --hello PROGRAM [unittest arguments]
"""
import argparse
import os
import pathlib
import re
import resource
import subprocess
import sys
import unittest

LIBRARY = HELLO = None

C_FUNCTIONS = """malloc free calloc realloc reallocarray memalign aligned_alloc posix_memalign valloc pvalloc
    malloc_usable_size malloc_trim malloc_info malloc_stats mallinfo mallinfo2 mallopt free_sized free_aligned_sized cfree
    __libc_malloc __libc_free __libc_calloc __libc_realloc __libc_memalign __libc_valloc __libc_pvalloc
    mallocx rallocx xallocx sallocx dallocx sdallocx nallocx dlopen prctl __register_atfork""".split()
# Itanium names: operator new, new[], delete, delete[], each plain, nothrow, aligned, aligned nothrow,
# delete sized and sized aligned as well.
NEW_FORMS = ["m", "mRKSt9nothrow_t", "mSt11align_val_t", "mSt11align_val_tRKSt9nothrow_t"]
DELETE_FORMS = ["Pv", "PvRKSt9nothrow_t", "PvSt11align_val_t", "PvSt11align_val_tRKSt9nothrow_t", "Pvm",
                "PvmSt11align_val_t"]
OPERATORS = [f"_Z{op}{form}" for op in ("nw", "na") for form in NEW_FORMS]
OPERATORS += [f"_Z{op}{form}" for op in ("dl", "da") for form in DELETE_FORMS]
OPTIONS = ["CHECKS", "STATS", "HUGE_PAGES", "CACHE_BYTES", "RELEASE_DELAY_MS", "SOFT_LIMIT", "HARD_LIMIT",
           "STATS_SIGNAL", "STATS_FILE", "PROFILE", "PROFILE_RATE", "PROFILE_SIGNAL", "LEAKS", "GUARD_RATE",
           "DEEPBIND", "MISMATCHES", "RANDOM"]


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def is_debug_build():
    return "6t_held" in output_of("nm", LIBRARY)  # as mangled: `count_held` is in every build


def run(command, preload=True, limits=(), **environment):
    """Runs a command on Strata (or not); the limits are pairs of a resource and a number."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}
    env.update(environment)
    if preload:
        env["LD_PRELOAD"] = LIBRARY

    def set_limits():
        for what, value in limits:
            resource.setrlimit(what, (value, value))

    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=300, preexec_fn=set_limits)


class SharedObject(unittest.TestCase):
    def test_needs_the_c_library_alone(self):
        dynamic = output_of("readelf", "--dynamic", "--wide", LIBRARY)
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
        allowed = {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
        if is_debug_build():  # inline functions of the standard library stay calls
            allowed.add("libstdc++.so.6")
        self.assertLessEqual(needed, allowed)

    def test_leaves_nothing_undefined_that_the_c_library_does_not_have(self):
        if is_debug_build():
            self.skipTest("inline functions of the standard library stay calls")
        undefined = output_of("nm", "--dynamic", "--undefined-only", "--demangle", LIBRARY).splitlines()
        self.assertEqual([line for line in undefined if " U " in line and "std::" in line], [])

    def test_exports_the_allocation_functions_and_strata_names_only(self):
        exported = set()
        for line in output_of("nm", "--dynamic", "--defined-only", LIBRARY).splitlines():
            exported.add(line.split()[-1].split("@")[0])
        allowed = {*C_FUNCTIONS, *OPERATORS}
        self.assertEqual(sorted(n for n in exported - allowed if not n.startswith("strata_")), [])
        self.assertEqual(sorted(allowed - exported), [])

    def test_the_c_librarys_own_names_mix_with_the_usual_ones(self):
        program = '''
import ctypes
c = ctypes.CDLL(None)
p, n = ctypes.c_void_p, ctypes.c_size_t
def of(name, result, *arguments):
    function = getattr(c, name)
    function.restype, function.argtypes = result, arguments
    return function
malloc, free, usable = of("malloc", p, n), of("free", None, p), of("malloc_usable_size", n, p)
for old in "cfree", "__libc_free":
    of(old, None, p)(malloc(100))
for bytes in 0, 1, 100, 5000, 300_000, 3_000_000:
    for name, arguments, alignment in (("malloc", (bytes,), 16), ("calloc", (bytes, 1), 16), ("memalign", (1024, bytes), 1024),
                                       ("valloc", (bytes,), 4096), ("pvalloc", (bytes,), 4096)):
        block = of("__libc_" + name, p, *[n] * len(arguments))(*arguments)
        assert block and block % (alignment if bytes else 1) == 0, (name, bytes)
        assert usable(block) >= (bytes + 4095 & ~4095 if name == "pvalloc" else bytes), (name, bytes)
        free(block)
    free(of("__libc_realloc", p, p, n)(malloc(bytes), bytes + 1))
assert not of("__libc_pvalloc", p, n)(2**64 - 1)
print("whole")
'''
        ran = run(["/usr/bin/python3", "-c", program])
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (0, "whole\n", ""))

    def test_has_every_function_of_its_header(self):
        header = pathlib.Path(__file__).resolve().parents[2] / "include/strata/malloc.h"
        declared = set(re.findall(r"\b(strata_\w+)\(", header.read_text()))
        exported = set(re.findall(r"\b(strata_\w+)", output_of("nm", "--dynamic", "--defined-only", LIBRARY)))
        self.assertGreater(len(declared), 5)
        # Heaps that are linked from the archive ask the library for the limit that they share with it.
        self.assertEqual(declared | {"strata_shared_limit_1"}, exported)

    def test_takes_nine_words_of_static_tls(self):
        sizes = re.findall(r"^ +TLS +\S+ +\S+ +\S+ +\S+ +(0x[0-9a-f]+)",
                           output_of("readelf", "--segments", "--wide", LIBRARY), re.M)
        self.assertEqual(len(sizes), 1)
        if not is_debug_build():  # which count the locks of each rank
            self.assertEqual(int(sizes[0], 16), 70)

    def test_has_no_executable_stack_no_text_relocations_no_lazy_binding(self):
        dynamic = output_of("readelf", "--dynamic", "--wide", LIBRARY)
        self.assertNotIn("TEXTREL", dynamic)
        self.assertIn("NOW", dynamic)
        self.assertIn("NODELETE", dynamic)

    def test_can_write_no_code_and_no_table_after_its_start(self):
        segments = output_of("readelf", "--segments", "--wide", LIBRARY)
        self.assertEqual(re.findall(r"^ +LOAD .* RWE .*$", segments, re.M), [])
        relro = re.search(r"^ +GNU_RELRO +\S+ +(0x[0-9a-f]+) +\S+ +\S+ +(0x[0-9a-f]+)", segments, re.M)
        start, size = int(relro[1], 16), int(relro[2], 16)
        # What the loader fills in, functions that others may replace included, is read-only then.
        sections = output_of("readelf", "--sections", "--wide", LIBRARY)
        for name in (".got", ".data.rel.ro", ".dynamic"):
            found = re.search(rf"\] \{name} +\S+ +([0-9a-f]+) +[0-9a-f]+ +([0-9a-f]+)", sections)
            if found:
                self.assertLessEqual(start, int(found[1], 16), name)
                self.assertLessEqual(int(found[1], 16) + int(found[2], 16), start + size, name)
        # So is what is never written: bins that are empty for ever, and how the kernel is asked for pages.
        symbols = dict(line.split(maxsplit=2)[::2] for line in output_of("nm", "-C", LIBRARY).splitlines() if line[0] != " ")
        places = {name: int(address, 16) for address, name in symbols.items()}
        for name in ("EmptyBins::g_all", "os::detail::g_kernel_pages"):
            self.assertTrue(start <= places["strata::" + name] < start + size, name)

    def test_maps_nothing_that_can_be_written_and_executed(self):
        for checks in "basic", "frees", "full", "auto":
            maps = run(["cat", "/proc/self/maps"], STRATA_CHECKS=checks, STRATA_GUARD_RATE="10").stdout
            self.assertIn("libstrata", maps)
            self.assertEqual([line for line in maps.splitlines() if re.search(r" .w.*x", line.split("/")[0])], [])
        stack = re.search(r"GNU_STACK.*", output_of("readelf", "--segments", "--wide", LIBRARY)).group()
        self.assertNotIn("RWE", stack)


class Options(unittest.TestCase):
    def expect_warning(self, sentence, **environment):
        ran = run([HELLO], **environment)
        self.assertEqual((ran.returncode, ran.stdout), (0, "hello\n"))
        self.assertEqual(len(ran.stderr.splitlines()), 1, ran.stderr)
        self.assertRegex(ran.stderr, "^strata: warning: " + sentence)

    def test_known_values_are_silent(self):
        for name, values in {"CHECKS": ["basic", "frees", "full", "auto"], "STATS": ["off"], "HUGE_PAGES": ["never", "auto", "always", "system"],
                             "CACHE_BYTES": ["0", "4096", "64k", "16M", "1g"],
                             "RELEASE_DELAY_MS": ["0", "50", "3600000"]}.items():
            for value in values:
                with self.subTest(name=name, value=value):
                    ran = run([HELLO], **{"STRATA_" + name: value})
                    self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (0, "hello\n", ""))

    def test_an_unknown_name_is_one_warning_that_lists_the_options(self):
        self.expect_warning("STRATA_UNLIKE_ANY is not an option; the options are.*"
                            + ".*".join("STRATA_" + name for name in OPTIONS), STRATA_UNLIKE_ANY="full")

    def test_a_misspelt_name_is_told_the_option_that_it_may_mean(self):
        self.expect_warning(r"STRATA_CHEKS is not an option; did you mean STRATA_CHECKS\?", STRATA_CHEKS="full")

    def test_a_name_that_only_ends_like_an_option_is_unknown(self):
        self.expect_warning("STRATA_MY_CHECKS is not an option", STRATA_MY_CHECKS="full")
        self.expect_warning("STRATA_ is not an option", STRATA_="1")

    def test_an_invalid_value_is_one_warning_that_says_what_is_valid(self):
        for name, value in [("CHECKS", "Full"), ("CHECKS", ""), ("CHECKS", "basic|full"), ("STATS", "on"),
                            ("HUGE_PAGES", "1"), ("CACHE_BYTES", "-1"), ("CACHE_BYTES", "12x"), ("CACHE_BYTES", "k"),
                            ("CACHE_BYTES", ""), ("CACHE_BYTES", "99999999999999999999"), ("CACHE_BYTES", "9999999999g"),
                            ("RELEASE_DELAY_MS", "1s"), ("RELEASE_DELAY_MS", "3600001"), ("RELEASE_DELAY_MS", "1.5")]:
            with self.subTest(name=name, value=value):
                self.expect_warning(f"STRATA_{name}={re.escape(value)} is not understood; it is (one of|a number)",
                                    **{"STRATA_" + name: value})

    def test_a_long_value_does_not_flood_the_warning(self):
        ran = run([HELLO], STRATA_CHECKS="x" * 100_000, **{"STRATA_" + "Y" * 100_000: "1"})
        self.assertEqual((ran.returncode, ran.stdout), (0, "hello\n"))
        self.assertEqual(len(ran.stderr.splitlines()), 2)
        self.assertLess(len(ran.stderr), 1000)

    def test_statistics_are_printed_at_exit_when_asked_for(self):
        ran = run([HELLO], STRATA_STATS="exit")
        self.assertEqual((ran.returncode, ran.stdout), (0, "hello\n"))
        self.assertRegex(ran.stderr, r"(?m)^strata: live +\d+")
        self.assertTrue(all(line.startswith("strata: ") for line in ran.stderr.splitlines()))


class Footprint(unittest.TestCase):
    @staticmethod
    def least_peak_bytes(preload):
        """The least of some runs: what the program needs, not what the kernel's accounting adds."""
        peaks = []
        for _ in range(10):
            env = dict(os.environ, LD_PRELOAD=LIBRARY) if preload else dict(os.environ)
            child = subprocess.Popen([HELLO], stdout=subprocess.DEVNULL, env=env)
            peaks.append(os.wait4(child.pid, 0)[2].ru_maxrss * 1024)
            child.returncode = 0
        return min(peaks)

    def test_a_tiny_program_stays_within_512_kib_of_glibc(self):
        self.assertLess(self.least_peak_bytes(True), self.least_peak_bytes(False) + 512 * 1024)

    def test_the_dynamic_linker_looks_up_few_names_at_each_start(self):
        relocations = subprocess.run(["readelf", "--relocs", "--wide", LIBRARY], capture_output=True, text=True, check=True).stdout
        names = re.findall(r" R_\w+_(?:JUMP_SLOT?|GLOB_DAT|64|ABS64) ", relocations)
        self.assertGreater(len(names), 20)
        if not is_debug_build():  # some 700 instructions each
            self.assertLessEqual(len(names), 90)

    def test_the_library_has_few_pages_that_the_dynamic_linker_writes(self):
        sections = subprocess.run(["readelf", "-SW", LIBRARY], capture_output=True, text=True,
                                  check=True).stdout
        size = re.search(r" \.data\s+PROGBITS\s+\S+\s+\S+\s+([0-9a-f]+)", sections)
        self.assertLess(int(size.group(1), 16), 40 * 1024)

    def test_programs_start_under_a_small_limit_of_address_space(self):
        for mib in (200, 100, 64):
            with self.subTest(limit_mib=mib):
                ran = run([HELLO], limits=[(resource.RLIMIT_AS, mib << 20)])
                self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (0, "hello\n", ""))

    def test_frees_are_verified_under_a_limit_of_address_space(self):
        twice = ("import ctypes; c = ctypes.CDLL(None); c.malloc.restype = ctypes.c_void_p; c.free.argtypes = [ctypes.c_void_p];"
                 "a, b = c.malloc(100), c.malloc(100); c.free(a); c.free(b); c.free(a); import os; os._exit(0)")  # nothing is looked at later
        for mib in (200, 64):
            with self.subTest(limit_mib=mib):
                ran = run(["/usr/bin/python3", "-c", twice], limits=[(resource.RLIMIT_AS, mib << 20)])
                self.assertIn("double free", ran.stderr)
                self.assertNotEqual(ran.returncode, 0)

    def test_python_starts_under_200_mb_of_address_space(self):
        ran = run(["/usr/bin/python3", "-c", "print(sum(range(10**5)))"],
                  limits=[(resource.RLIMIT_AS, 200_000 * 1024)], PYTHONMALLOC="malloc")
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (0, "4999950000\n", ""))

    def test_python_starts_a_thread_under_40_mb_of_address_space(self):
        ran = run(["/usr/bin/python3", "-c", "import threading; threading.Thread(target=print, args=['whole']).start()"],
                  limits=[(resource.RLIMIT_AS, 40_000 * 1024), (resource.RLIMIT_STACK, 8 << 20)])
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (0, "whole\n", ""))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--hello", required=True)
    known, rest = parser.parse_known_args()
    LIBRARY, HELLO = known.library, known.hello
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
