#!/usr/bin/env python3
"""`strata replay` and `strata advise` from end to end, on traces of known calls: what each option does, and what is said
of a bad one. The environment is that of end_to_end_test.py."""
import csv
import io
import json
import os
import pty
import re
import subprocess
import unittest

import schema
from end_to_end_test import INSTRUMENTED, InFolder, LIKE_STRATA, SCHEMA, STRATA, library, strata

CALLS = 4000
LASTS_S = 0.3


def made_trace():
    """Calls at the beginning, and after a pause the rest; of the size from which on lying_malloc.c lies."""
    lines = ["operation,time_ns,thread,object,size_bytes"]
    lines += [f"malloc,{i},1,{i},72" for i in range(CALLS // 2)]
    lines += [f"free,{int(LASTS_S * 1e9) + i},1,{i}," for i in range(CALLS // 2)]
    return "\n".join(lines) + "\n"


def made_of_places(places):
    """Each makes objects of one size and frees them all before the next one's turn."""
    lines = ["operation,time_ns,thread,object,size_bytes,stack"]
    lines += [f"#stack,{place},0,0x{0x1000 * place:x}" for place in range(1, places + 1)]
    now = 0
    for place in range(1, places + 1):
        for operation, size, stack in (("malloc", 40 * place, place), ("free", "", "")):
            for i in range(2000):
                now += 100
                lines.append(f"{operation},{now},1,{place}.{i},{size},{stack}")
    return "\n".join(lines) + "\n"


class Traced(InFolder):
    COMMAND = TEXT = None

    def setUp(self):
        super().setUp()
        self.trace = self.folder / "app.trace"
        (self.folder / "app.csv").write_text(self.TEXT)
        done = strata("trace", "csv", str(self.folder / "app.csv"), "-o", str(self.trace))
        self.assertEqual(done.returncode, 0, done.stderr)

    def refused(self, *words):
        """What the command says of them, without its name and the line that names the help."""
        done = strata(self.COMMAND, *map(str, words))
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        sentence, usage = done.stderr.splitlines()
        self.assertEqual(usage, f"Usage: strata {self.COMMAND} --help")
        name, sentence = sentence.split(": ", 1)
        self.assertEqual(name, f"strata {self.COMMAND}")
        return sentence

    def shown_on_a_terminal(self, *options):
        """What the command writes to standard error, where that is a terminal."""
        reading, writing = pty.openpty()
        with subprocess.Popen([STRATA, self.COMMAND, str(self.trace), "--runs", "3", *options], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=writing, env={**os.environ, "TERM": "xterm"}) as process:
            os.close(writing)
            shown = b""
            try:
                while part := os.read(reading, 4096):
                    shown += part
            except OSError:  # the terminal's other end is closed
                pass
            os.close(reading)
            self.assertEqual(process.wait(300), 0)
        return shown.decode()

    def check_refusals(self, cases):
        for words, sentence in cases:
            with self.subTest(words=words):
                self.assertEqual(self.refused(self.trace, *words), sentence)


class Replay(Traced):
    COMMAND, TEXT = "replay", made_trace()

    def replay(self, *options, allocators="system", status=0):
        """Runs it once under each, validates the results, and returns (completed process, rows by contender)."""
        path = self.folder / "results.json"
        done = strata("replay", str(self.trace), "--allocators", allocators, "--runs", "1", "--json", str(path),
                      *options)
        self.assertEqual(done.returncode, status, done.stderr)
        results = json.loads(path.read_text())
        self.assertEqual(schema.check(results, SCHEMA), [])
        return done, {row["contender"]: row for row in results["rows"]}

    def test_the_recorded_pace_is_kept_if_it_is_asked_for(self):
        for options, pace in ((("--pace", "recorded"), "recorded"), (("--pace", "max"), "max"), ((), "max")):
            _, rows = self.replay(*options)
            self.assertEqual(rows["system"]["params"]["pace"], pace)
            self.assertEqual(rows["system"]["metrics"]["ops"]["median"], CALLS)
            if pace == "recorded":
                self.assertGreaterEqual(rows["system"]["metrics"]["elapsed_s"]["median"], LASTS_S)

    def test_options_of_strata_are_set_and_varied(self):
        _, rows = self.replay("--set", "random=off", "--vary", "checks=basic,frees", allocators="system,strata")
        self.assertEqual(list(rows), ["system", "strata checks=basic", "strata checks=frees"])
        self.assertEqual({row["params"]["STRATA_RANDOM"] for row in rows.values()}, {"off"})

    def test_what_is_written_into_objects_can_be_chosen(self):
        for options, touch in ((("--touch", "none"), "none"), (("--touch", "all"), "all"), ((), "written")):
            _, rows = self.replay(*options)
            self.assertEqual(rows["system"]["params"]["touch"], touch)
            self.assertEqual(rows["system"]["metrics"]["ops"]["median"], CALLS)

    @unittest.skipIf(INSTRUMENTED, "a sanitizer wants to be first in the measured process")
    def test_objects_that_overlap_are_found_where_they_are_written(self):
        for liar, touch, is_found in (("lies_twice", "written", True), ("lies_inside", "all", True),
                                      ("lies_inside", "none", False)):
            with self.subTest(liar=liar, touch=touch):
                _, rows = self.replay("--touch", touch, status=int(is_found), allocators=library(liar))
                self.assertEqual(rows[liar]["ok"], not is_found)
                if is_found:
                    self.assertRegex(rows[liar]["reason"], "^corrupted memory: .*, in run 1 of 1$")

    def test_the_share_of_calls_that_are_timed_is_the_one_asked_for(self):
        _, rows = self.replay("--sample-rate", "0")
        self.assertFalse(rows["system"].get("latencies"))
        self.assertNotIn("allocator_s", rows["system"]["metrics"])
        _, rows = self.replay("--sample-rate", "1")
        self.assertEqual({kind: latency["count"] for kind, latency in rows["system"]["latencies"].items()},
                         {"alloc": CALLS // 2, "free": CALLS // 2})
        self.assertEqual(rows["system"]["params"]["sample_rate"], 1)

    @unittest.skipIf(INSTRUMENTED, "a sanitizer wants to be first in the measured process")
    def test_a_run_that_lasts_too_long_is_a_failed_row(self):
        done, rows = self.replay("--timeout", "2", status=1, allocators=library("hangs_at_malloc"))
        self.assertEqual(rows["hangs_at_malloc"]["reason"], "still running after 2 s, in run 1 of 1")
        self.assertRegex(done.stdout, r"(?m)^hangs_at_malloc +failed: still running after 2 s, in run 1 of 1$")

    def test_csv_has_the_same_rows(self):
        path = self.folder / "results.csv"
        _, rows = self.replay("--csv", str(path), "--label", "first", allocators=f"system,{library('forwarding_malloc')}")
        lines = list(csv.DictReader(io.StringIO(path.read_text())))
        self.assertEqual([line["contender"] for line in lines], ["system", "forwarding_malloc"])
        for line in lines:
            row = rows[line["contender"]]
            self.assertEqual((line["label"], line["params.trace"], line["params.calls"]), ("first", "app.trace", str(CALLS)))
            self.assertEqual(float(line["elapsed_s.median"]), row["metrics"]["elapsed_s"]["median"])

    def test_strata_is_the_library_that_is_named(self):
        _, rows = self.replay("--library", LIKE_STRATA, allocators="strata")
        self.assertEqual(rows["strata"]["library"], LIKE_STRATA)

    def test_progress_is_shown_on_a_terminal_unless_quiet(self):
        system = ("--allocators", "system")
        self.assertIn(f"reading {self.trace}: 0% ...", self.shown_on_a_terminal(*system))
        self.assertIn("[1/3] replay app.trace: system, run 1 of 3 ...", self.shown_on_a_terminal(*system))
        self.assertEqual(self.shown_on_a_terminal(*system, "--quiet"), "")
        done, _ = self.replay("--quiet")
        self.assertEqual(done.stdout + done.stderr, "")

    def test_bad_options_get_one_sentence_each(self):
        self.check_refusals((
            (("--pace", "fast"), "--pace is 'fast'; give one of max, recorded"),
            (("--pace", ""), "--pace is ''; give one of max, recorded"),
            (("--pace",), "--pace needs a value"),
            (("--pace", "--quiet"), "--pace needs a value; '--quiet' is an option"),
            (("--touch", "some"), "--touch is 'some'; give one of written, all, none"),
            (("--sample-rate", "2"), "--sample-rate is '2'; give a number from 0 to 1, as in 0.05"),
            (("--sample-rate", "nan"), "--sample-rate is 'nan'; give a number from 0 to 1, as in 0.05"),
            (("--timeout", "soon"), "--timeout is 'soon'; give seconds as a number from 0 to 31622400, as in 2.5"),
            (("--runs", "0"), "--runs is '0'; give a whole number from 1 to 1000000"),
            (("--threads", "2"), "unknown option '--threads'"),
            (("--json", "-", "--csv", "-"),
             "--json and --csv cannot both be standard output; give one of them another file"),
            (("--csv", "/no/such/file"),
             "--csv cannot write '/no/such/file': No such file or directory; give a path that you may write"),
            (("--library", "/none", "--allocators", "strata"),
             "strata: /none does not exist or cannot be read; check the path"),
            (("--library", LIKE_STRATA, "--allocators", "system"),
             "--library has no effect: it is for the allocator 'strata', which is not named"),
        ))

    def test_bad_traces_get_one_sentence_each(self):
        self.assertEqual(self.refused(), "name a trace; to make one: strata record -- ...")
        self.assertEqual(self.refused(self.folder / "none"),
                         f"the trace '{self.folder / 'none'}' cannot be read: No such file or directory")
        self.assertEqual(self.refused(self.trace, self.trace, "--allocators", "system"),
                         f"trace '{self.trace}' is named twice")


class Advise(Traced):
    PLACES = 4
    COMMAND, TEXT = "advise", made_of_places(PLACES)

    def advise(self, *options, status=0):
        done = strata("advise", str(self.trace), "--runs", "3", "--quiet", *options)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def places_of(self, *options):
        said = self.advise("--all", *options).stdout
        return len(set(re.findall(r"(?m)^(?:\d+\. |Not worth it: )(0x[0-9a-f]+)", said)))

    def test_as_many_places_are_tried_as_asked_for(self):
        self.assertEqual(self.places_of("--places", "1"), 1)
        self.assertEqual(self.places_of("--places", "3"), 3)
        self.assertEqual(self.places_of(), self.PLACES)

    @unittest.skipIf(INSTRUMENTED, "a sanitizer wants to be first in the measured process")
    def test_the_other_calls_go_to_the_allocator_that_is_named(self):
        done = self.advise("--allocator", library("aborts_at_malloc"), status=1)
        self.assertEqual((done.stdout, done.stderr),
                         ("", "strata advise: the trace cannot be replayed: killed by SIGABRT, in run 1 of 1\n"))
        self.assertEqual(self.places_of("--places", "1", "--allocator", library("forwarding_malloc")), 1)
        self.assertEqual(self.places_of("--places", "1", "--allocator", "strata", "--library", LIKE_STRATA), 1)

    def test_progress_is_shown_on_a_terminal_unless_quiet(self):
        one = ("--places", "1")
        self.assertIn("planning 1 of ", self.shown_on_a_terminal(*one))
        self.assertEqual(self.shown_on_a_terminal(*one, "--quiet"), "")

    def test_bad_options_get_one_sentence_each(self):
        self.check_refusals((
            (("--places", "0"), "--places is '0'; give a whole number from 1 to 1000"),
            (("--places", "many"), "--places is 'many'; give a whole number from 1 to 1000"),
            (("--runs", "2"), "--runs is '2'; give a whole number from 3 to 1000"),
            (("--skip",), "--skip needs a value"),
            (("--skip", "a,,b"),
             "--skip has an empty entry; separate entries by single commas, as in a,b"),
            (("--library", LIKE_STRATA),
             "--library has no effect: it is for the allocator 'strata', which is not named"),
            (("--allocator", "strata", "--library", "/none"),
             "strata: /none does not exist or cannot be read; check the path"),
            ((self.trace,), "one trace at a time"),
        ))
        for name in ("none", "bitmap-pool", "system,strata"):
            self.assertIn(f"unknown allocator '{name}'; known are system, strata, ",
                          self.refused(self.trace, "--allocator", name))
        self.assertEqual(self.refused(), "name a trace; to make one: strata record -- ...")


if __name__ == "__main__":
    unittest.main()
