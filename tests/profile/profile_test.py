#!/usr/bin/env python3
"""Heap profiles and leak reports, as their readers get them.

usage: profile_test.py --program profiled --plugin libprofiled_plugin.so Profile|Leaks|Pprof
       profile_test.py --program profiled_static Static
       profile_test.py --program profiled_heaps --with-malloc profiled_heaps_and_malloc --library libstrata.so
                       --command strata Heaps
       profile_test.py --program profiled_heaps_by_call HeapsByCall
"""
import argparse
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

UNCHECKED = ("strata: warning: every allocation is recorded (STRATA_LEAKS, or STRATA_PROFILE_RATE=1), and none is "
             "under full checks or between guard pages\n")
PROGRAM = PLUGIN = WITH_MALLOC = LIBRARY = COMMAND = None


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """The fields of a protobuf message: (number, value), in order."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
            assert len(value) == length
        else:
            raise ValueError(f"wire type {key & 7}")
        yield key >> 3, value


def packed(data):
    at, values = 0, []
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


class Profile:
    """github.com/google/pprof, proto/profile.proto, as far as heap profiles use it."""

    def __init__(self, path):
        self.samples, self.mappings, self.locations, self.types = [], {}, {}, []
        labels = []
        strings, numbers = [], {}
        for number, value in fields(gzip.decompress(pathlib.Path(path).read_bytes())):
            if number == 1:
                self.types.append(dict(fields(value)))
            elif number == 2:
                message = dict(fields(value))
                self.samples.append((packed(message[1]), packed(message[2])))
                labels.append(dict(fields(message[3])) if 3 in message else None)
            elif number == 3:
                message = dict(fields(value))
                self.mappings[message[1]] = message
            elif number == 4:
                message = dict(fields(value))
                assert message[1] not in self.locations, "a location is there twice"
                self.locations[message[1]] = message
            elif number == 6:
                strings.append(value.decode())
            else:
                numbers[number] = value
        self.types = [(strings[t[1]], strings[t[2]]) for t in self.types]
        self.strings, self.numbers = strings, numbers
        self.heaps = [(strings[label[1]], strings[label[2]]) if label else None for label in labels]

    def by_heap(self):
        """{name: the sums of its samples}"""
        sums = {}
        for heap, (_, values) in zip(self.heaps, self.samples):
            sums[heap] = [a + b for a, b in zip(sums.get(heap, [0] * 4), values)]
        return sums

    def mapping_of(self, address):
        message = self.mappings[self.locations[address][2]]
        assert message[2] <= address < message[3]
        return message

    def file_of(self, address):
        return self.strings[self.mapping_of(address)[5]]

    def total(self):
        return [sum(values[i] for _, values in self.samples) for i in range(4)]


def run(*command, **environment):
    env = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}
    return subprocess.run([PROGRAM, *map(str, command)], env={**env, **environment}, capture_output=True, text=True,
                          timeout=300)


class TestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def profile(self, *command, status=0, said="", **environment):
        path = self.folder / "out.pb.gz"
        ran = run(*command, STRATA_PROFILE=str(path), **environment)
        self.assertEqual((ran.returncode, ran.stderr), (status, said))
        self.assertEqual([entry.name for entry in self.folder.iterdir()], ["out.pb.gz"])
        return Profile(path)


class ProfileTest(TestCase):
    def test_holds_every_allocation_at_a_rate_of_one(self):
        profile = self.profile("fill", STRATA_PROFILE_RATE="1")
        self.assertEqual(profile.types, [("alloc_objects", "count"), ("alloc_space", "bytes"),
                                         ("inuse_objects", "count"), ("inuse_space", "bytes")])
        values = [values for _, values in profile.samples]
        self.assertIn([100_000, 10_000_000, 25_000, 2_500_000], values)
        self.assertIn([50, 50_000_000, 1, 1_000_000], values)

    def test_estimates_at_the_default_rate(self):
        profile = self.profile("fill")
        self.assertEqual(profile.numbers[12], 512 * 1024)
        # 20 samples of the small ones, all but 13% of the large ones: six deviations.
        self.assertAlmostEqual(profile.total()[1] / 60e6, 1, delta=0.4)
        # 5 samples of the small ones on average.
        self.assertLess(profile.total()[3], 20e6)

    def test_knows_where_the_stacks_lead(self):
        profile = self.profile("fill", STRATA_PROFILE_RATE="1")
        for stack, values in profile.samples:
            for address in stack:
                self.assertTrue(os.path.exists(profile.file_of(address)))
            self.assertNotIn("libstrata", profile.file_of(stack[0]), "our own frames are left out")
        # Twice the same function, by way of two callers.
        program = [message for message in profile.mappings.values() if profile.strings[message[5]] ==
                   os.path.realpath(PROGRAM)]
        self.assertEqual(len(program), 1)
        notes = subprocess.run(["readelf", "-n", PROGRAM], capture_output=True, text=True, check=True).stdout
        expected = re.search(r"Build ID: (\w+)", notes)
        if expected:
            self.assertEqual(profile.strings[program[0][6]], expected[1])

    def test_knows_where_they_lead_when_main_has_ended_before_other_threads(self):
        statistics = self.folder.parent / (self.folder.name + ".txt")
        self.addCleanup(statistics.unlink)
        profile = self.profile("main_ends", STRATA_PROFILE_RATE="1", STRATA_STATS="exit",
                               STRATA_STATS_FILE=str(statistics))
        for stack, _ in profile.samples:
            for address in stack:
                self.assertTrue(os.path.exists(profile.file_of(address)))
        self.assertRegex(statistics.read_text(), r"resident +[1-9]")

    def test_a_child_of_fork_writes_a_file_of_its_own(self):
        ran = run("fork", STRATA_PROFILE=str(self.folder / "%p.pb.gz"), STRATA_PROFILE_RATE="1")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        parent, child = (Profile(self.folder / f"{pid}.pb.gz") for pid in ran.stdout.split())
        blocks = [[values for _, values in profile.samples if values[1] == 2_000_000] for profile in (parent, child)]
        self.assertEqual(blocks, [[], [[1, 2_000_000, 1, 2_000_000]]])
        for profile in (parent, child):
            self.assertIn([1, 100, 1, 100], [values for _, values in profile.samples])

    def test_is_written_when_the_signal_arrives(self):
        path = self.folder / "out.pb.gz"
        ran = run("signal", path, STRATA_PROFILE=str(path), STRATA_PROFILE_SIGNAL="12", STRATA_PROFILE_RATE="1")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertIn([50, 50_000_000, 1, 1_000_000], [values for _, values in Profile(path).samples])

    def test_the_signal_of_a_fault_is_refused(self):
        for options in ({"STRATA_PROFILE": str(self.folder / "out"), "STRATA_PROFILE_SIGNAL": "11"},
                        {"STRATA_STATS": "signal", "STRATA_STATS_SIGNAL": "11"}):
            ran = run("fault", **options)
            self.assertEqual((ran.returncode, ran.stderr), (-11, (
                "strata: warning: signal 11 cannot be used: it is that of a fault, the program handles it, or the system keeps it; "
                "choose another, such as 12\n")))

    def test_the_signal_of_the_statistics_is_refused_and_another_is_named(self):
        ran = run("fault", STRATA_STATS="signal", STRATA_PROFILE=str(self.folder / "out"), STRATA_PROFILE_SIGNAL="12")
        self.assertRegex(ran.stderr, r"\Astrata: warning: signal 12 cannot be used: .*; choose another, such as 10\n\Z")

    def test_a_thread_with_the_least_stack_can_write_it_and_end_the_program(self):
        by_call, at_exit = self.folder / "call.pb.gz", self.folder / "exit.pb.gz"
        ran = run("small_stack", by_call, STRATA_PROFILE=str(at_exit), STRATA_PROFILE_RATE="1", STRATA_LEAKS="1",
                  STRATA_STATS="exit")
        self.assertEqual(ran.returncode, 0)
        for path in by_call, at_exit:
            self.assertIn([50, 50_000_000, 1, 1_000_000], [values for _, values in Profile(path).samples])

    def test_takes_no_stack_while_the_unwinder_sorts_its_tables(self):
        self.profile("tables", STRATA_PROFILE_RATE="1")
        for guards in {"STRATA_CHECKS": "frees"}, {"STRATA_CHECKS": "full"}:
            ran = run("tables", STRATA_GUARD_RATE="1", **guards)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))

    def test_begins_ends_and_is_written_by_call(self):
        path = self.folder / "out.pb.gz"
        ran = run("calls", path)
        self.assertEqual(ran.returncode, 0)
        self.assertEqual(ran.stderr, "strata: warning: the profile '' is not written: No such file or directory\n"
                         "strata: warning: the profile /nowhere/at/all is not written: "
                         "No such file or directory\n")
        self.assertEqual([values for _, values in Profile(path).samples], [[1, 123, 1, 123]])

    def test_begins_after_a_thread_whose_first_allocation_was_in_its_last_exit_hook(self):
        path = self.folder / "out.pb.gz"
        ran = run("lost_thread", path)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual([values for _, values in Profile(path).samples], [[1, 123, 1, 123]])

    def test_a_file_that_cannot_be_written_is_one_sentence(self):
        ran = run("fill", STRATA_PROFILE=str(self.folder / "none" / "out"))
        self.assertEqual(ran.returncode, 0)
        self.assertRegex(ran.stderr, r"\Astrata: warning: the profile \S+/none/out is not written: "
                         r"No such file or directory\n\Z")

    def test_stands_signals_and_libraries_that_come_and_go(self):
        profile = self.profile("storm", PLUGIN, STRATA_PROFILE_RATE="1")
        self.assertGreater(profile.total()[0], 90_000)
        profile = self.profile("storm", PLUGIN, said=UNCHECKED, STRATA_CHECKS="full", STRATA_PROFILE_RATE="1")
        self.assertGreater(profile.total()[0], 90_000)

    def test_says_that_what_it_records_is_not_checked(self):
        for options in {"STRATA_CHECKS": "full"}, {"STRATA_GUARD_RATE": "100"}:
            self.profile("leak", said=UNCHECKED, STRATA_PROFILE_RATE="1", **options)
            self.profile("leak", STRATA_PROFILE_RATE="64k", **options)


class LeaksTest(TestCase):
    def report(self, *command, **environment):
        ran = run(*command, STRATA_LEAKS="1", **environment)
        self.assertEqual((ran.returncode, ran.stdout), (0, ""))
        return ran.stderr

    def test_names_what_is_live_at_exit_the_largest_first(self):
        report = self.report("leak")
        heads = re.findall(r"^strata: (.*)$", report, re.M)
        self.assertRegex(heads[0], r"^530007 bytes in 32 allocations of process \d+ are live at exit, from 3 places$")
        self.assertEqual(heads[1:], ["500000 bytes in 1 allocation by", "30000 bytes in 30 allocations by",
                                     "7 bytes in 1 allocation by"])
        stacks = re.split(r"^strata: .*$", report, flags=re.M)[2:]
        for stack, maker in zip(stacks, ["make_large", "make_small", "leak"]):
            first = stack.strip().splitlines()[0]
            self.assertRegex(first, rf"^#0  {maker}\+0x[0-9a-f]+  {re.escape(os.path.realpath(PROGRAM))}\+0x[0-9a-f]+$")

    def test_offsets_are_those_of_addr2line(self):
        first = re.search(r"#0  make_large\+\S+  (\S+)\+(0x[0-9a-f]+)", self.report("leak"))
        found = subprocess.run(["addr2line", "-f", "-e", first[1], first[2]], capture_output=True, text=True, check=True)
        self.assertRegex(found.stdout, r"^make_large\n.*profiled\.c:\d+")

    def test_the_program_is_its_file_whatever_its_title_is(self):
        env = {**os.environ, "STRATA_LEAKS": "1"}
        ran = subprocess.run(["server: waiting", "leak"], executable=PROGRAM, env=env, capture_output=True, text=True,
                             timeout=300)
        self.assertRegex(ran.stderr, rf"(?m)^    #0  make_large\+\S+  {re.escape(os.path.realpath(PROGRAM))}\+0x")
        self.assertNotIn("server: waiting", ran.stderr)

    def test_a_profile_can_be_had_with_it(self):
        path = self.folder / "out.pb.gz"
        self.report("leak", STRATA_PROFILE=str(path))
        profile = Profile(path)
        self.assertEqual(profile.numbers[12], 1)
        self.assertEqual(profile.total()[2:], [32, 530_007])

    def test_works_where_every_free_is_checked_at_once(self):
        report = self.report("leak", STRATA_CHECKS="full")
        self.assertIn("530007 bytes in 32 allocations", report)
        self.assertEqual(report.count(UNCHECKED), 1)


class StaticTest(TestCase):
    def test_counts_everything_and_has_stacks_where_there_are_tables(self):
        profile = self.profile(STRATA_PROFILE_RATE="1")
        if PROGRAM.endswith("-pie"):
            (stack,) = [stack for stack, values in profile.samples if values == [1, 12345, 1, 12345]]
            self.assertGreater(len(stack), 3, "main, what calls it, and our own")
        self.assertGreaterEqual(profile.total()[3], 12345)


class HeapsTest(TestCase):
    HEAPS = {("heap", "session"): [10, 10_000, 10, 10_000], ("heap", "cache"): [2, 3_000_100, 1, 3_000_000],
             ("heap", "request"): [10, 5_000, 0, 0]}
    LEAKS = ["of these 3000000 bytes in 1 allocation in the heap 'cache'",
             "of these 10000 bytes in 10 allocations in the heap 'session'"]

    def run_with(self, program, preload="", **environment):
        env = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}
        ran = subprocess.run([program], env={**env, "LD_PRELOAD": preload, **environment}, capture_output=True, text=True,
                             timeout=300)
        self.assertEqual((ran.returncode, ran.stdout), (0, ""))
        return ran.stderr

    def profiles(self, program, preload=""):
        said = self.run_with(program, preload, STRATA_PROFILE=str(self.folder / "out.pb.gz"), STRATA_PROFILE_RATE="1")
        self.assertEqual(said, "")
        return {path.name: Profile(path).by_heap() for path in self.folder.iterdir()}

    def test_beside_anothers_malloc_they_have_a_profile_of_their_own(self):
        self.assertEqual(self.profiles(PROGRAM), {"out.heaps.pb.gz": self.HEAPS})

    def test_the_malloc_that_is_preloaded_writes_the_other(self):
        files = self.profiles(PROGRAM, LIBRARY)
        self.assertEqual(files["out.heaps.pb.gz"], self.HEAPS)
        self.assertEqual(list(files["out.pb.gz"]), [None])
        self.assertGreaterEqual(files["out.pb.gz"][None][3], 77_777)

    def test_beside_the_malloc_of_the_same_archive_there_is_one_profile(self):
        files = self.profiles(WITH_MALLOC)
        self.assertEqual(list(files), ["out.pb.gz"])
        malloc = files["out.pb.gz"].pop(None)
        self.assertEqual(files["out.pb.gz"], self.HEAPS)
        self.assertGreaterEqual(malloc[3], 77_777)

    def test_where_all_is_linked_in_places_are_the_programs_own(self):
        path = str(self.folder / "out.pb.gz")
        self.run_with(WITH_MALLOC, STRATA_PROFILE=path, STRATA_PROFILE_RATE="1")
        said = subprocess.run([COMMAND, "profile", path, "--top", "0"], capture_output=True, text=True).stdout
        self.assertRegex(said, r"(?m)^\(anonymous namespace\)::make  heaps\.cpp:\d+ ")
        self.assertNotRegex(said, r"(?m)^(strata::|.*::allocate_slowly)")

    def test_of_two_copies_of_strata_the_one_that_serves_the_program_writes(self):
        self.assertEqual(self.profiles(WITH_MALLOC, LIBRARY)["out.pb.gz"].keys(), self.HEAPS.keys() | {None})
        both = self.run_with(WITH_MALLOC, LIBRARY, STRATA_LEAKS="1")
        self.assertEqual(len(re.findall("are live at exit", both)), 1, both)
        ran = subprocess.run([COMMAND, "run", "--leaks", "--", WITH_MALLOC], capture_output=True, text=True, timeout=300)
        self.assertEqual((ran.returncode, ran.stdout), (0, ""))
        self.assertRegex(ran.stderr, r"\Astrata: warning: \S*profiled_heaps_and_malloc has a malloc of its own, .*\n"
                         r"strata: \d{7,} bytes in \d+ allocations are live at exit of profiled_heaps_and_malloc "
                         r"\(process \d+\), from \d+ places\n")
        self.assertIn("strata: 3000000 bytes in 1 allocation by\n", ran.stderr)
        self.assertEqual(len(re.findall("are live at exit", ran.stderr)), 1)

    @unittest.skipUnless(any(pathlib.Path("/usr/lib").glob("*/libjemalloc.so.2")), "jemalloc is not installed")
    def test_beside_anothers_malloc_the_library_says_that_it_has_nothing_to_write(self):
        path = self.folder / "out.pb.gz"
        said = self.run_with("/bin/true", f"libjemalloc.so.2:{LIBRARY}", STRATA_PROFILE=str(path), STRATA_LEAKS="1")
        self.assertEqual(said, f"strata: warning: the profile {path} is not written: the program's malloc is not this "
                               "library's\n")
        self.assertFalse(path.exists())

    def test_the_report_of_leaks_names_them(self):
        heads = re.findall(r"^strata: (.*)$", self.run_with(PROGRAM, STRATA_LEAKS="1"), re.M)
        self.assertRegex(heads[0], r"^3010000 bytes in 11 allocations of process \d+ are live at exit, from 2 places$")
        self.assertEqual(heads[1:], [*self.LEAKS, "3000000 bytes in 1 allocation in the heap 'cache' by",
                                     "10000 bytes in 10 allocations in the heap 'session' by"])
        both = self.run_with(WITH_MALLOC, STRATA_LEAKS="1")
        for line in [*self.LEAKS, *heads[3:]]:
            self.assertIn(f"strata: {line}\n", both)
        self.assertRegex(both, r"(?m)^strata: of these \d+ bytes in \d+ allocations? in the malloc$")

    def test_the_command_shows_them_as_the_outermost_call(self):
        ran = subprocess.run([COMMAND, "run", "--leaks", "--", PROGRAM], capture_output=True, text=True, timeout=300)
        self.assertEqual((ran.returncode, ran.stdout), (0, ""))
        stacks = re.split(r"(?m)^strata: ", ran.stderr)
        self.assertRegex(stacks[1], r"\A3010000 bytes in 11 allocations are live at exit of profiled_heaps "
                         r"\(process \d+, its heaps\), from 2 places$")
        self.assertRegex(stacks[2], r"\A3000000 bytes in 1 allocation by\n +#0  main  .*heaps\.cpp:\d+\n"
                         r"(?s:.*)#\d+  \[the heap 'cache'\]\n\Z")


class HeapsByCallTest(TestCase):
    def test_begins_goes_on_ends_and_is_written(self):
        ran = run(self.folder / "%p.pb.gz", self.folder / "other.pb.gz")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        profile, other = Profile(self.folder / f"{ran.stdout.strip()}.pb.gz"), Profile(self.folder / "other.pb.gz")
        self.assertEqual(profile.by_heap(), {("heap", "session"): [3, 1223, 2, 223]})
        self.assertEqual(other.samples, [])
        self.assertEqual((profile.numbers[12], other.numbers[12]), (1, 1 << 30))
        self.assertEqual(len(list(self.folder.iterdir())), 2)


def find_pprof():
    """As Debian installs it; newer versions of Go build it where it is first asked for, which takes a minute."""
    installed = sorted(pathlib.Path("/usr/lib").glob("go*/pkg/tool/*/pprof"))
    return [installed[0]] if installed else ["go", "tool", "pprof"] if shutil.which("go") else None


@unittest.skipUnless(find_pprof(), "go is not installed: `go tool pprof` cannot read the profile")
class PprofTest(TestCase):
    def top(self, index):
        env = {**os.environ, "PPROF_TMPDIR": str(self.folder), "PPROF_BINARY_PATH": str(self.folder)}
        ran = subprocess.run([*find_pprof(), "-top", f"-sample_index={index}", "-unit=bytes", PROGRAM,
                              str(self.folder / "out.pb.gz")], env=env, capture_output=True, text=True, timeout=300)
        if "no such tool" in ran.stderr:
            self.skipTest("this go has no pprof")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return {m[2]: int(m[1]) for m in re.finditer(r"^ *(\d+)B? +\S+ +\S+ +\S+ +\S+ +(\w+)", ran.stdout, re.M)}

    def test_go_tool_pprof_reads_it_and_finds_names(self):
        self.profile("fill", STRATA_PROFILE_RATE="1")
        live = self.top("inuse_space")
        self.assertEqual((live["make_small"], live["make_large"]), (2_500_000, 1_000_000))
        allocated = self.top("alloc_space")
        self.assertEqual((allocated["make_small"], allocated["make_large"]), (10_000_000, 50_000_000))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    for name in "plugin", "with-malloc", "library", "command":
        parser.add_argument(f"--{name}")
    known, rest = parser.parse_known_args()
    PROGRAM, PLUGIN, WITH_MALLOC, LIBRARY, COMMAND = (known.program, known.plugin, known.with_malloc, known.library,
                                                      known.command)
    unittest.main(argv=[sys.argv[0], *(f"{name}Test" for name in rest)], verbosity=2)
