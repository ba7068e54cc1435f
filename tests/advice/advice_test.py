"""From a recording to advice, with the command as a user has it, on programs whose best allocator is known.

What a change saves of time is printed, never asserted: which patterns are found, what is tried, and what is saved of
memory is."""
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import unittest

import savings

STRATA = os.environ["STRATA"]
ADVISED = os.environ["ADVISED"]


def strata(*words, status=0):
    result = subprocess.run([STRATA, *map(str, words)], capture_output=True, text=True, timeout=600)
    if status is not None and result.returncode != status:
        raise AssertionError(f"strata {words}: {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result


class Advice(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="strata-advice-")
        cls.path = pathlib.Path(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def record(self, program):
        trace = self.path / f"{program}.trace"
        if not trace.exists():
            strata("record", "-o", trace, "--", ADVISED, program, "plain")
        return trace

    def advice(self, program, expected):
        answer = strata("advise", self.record(program), "--runs", 3, "--all", "--quiet").stdout
        print(f"\n{program}\n{answer}")
        self.assertIn(expected, answer)
        return answer

    def test_both_ways_of_each_program_do_the_same(self):
        for program in ("parser", "tree", "messages", "growing", "buffers", "pieces"):
            answers = {
                savings.run_once(program, way)[0]
                for way in ("plain", "advised")
            }
            self.assertEqual(len(answers), 1, program)

    def expect_memory_saved(self, program, answer):
        """The first advice saves memory, and as much as the program saves that takes it, within a third."""
        self.assertTrue(answer.startswith("1. "), answer)
        predicted = savings.predicted(answer)[1]
        applied = savings.applied(program, 3)[1]
        print(f"memory saved: predicted {predicted[0] - predicted[1]:.0f}, applied {applied[0] - applied[1]}")
        ratio = (applied[0] - applied[1]) / (predicted[0] - predicted[1])
        self.assertTrue(2 / 3 <= ratio <= 4 / 3, ratio)

    def test_a_parser_gets_an_arena(self):
        answer = self.advice("parser", "that die together")
        self.assertIn("strata::PageArena arena", answer)
        self.assertIn("memory.reset();", answer)
        self.expect_memory_saved("parser", answer)

    def test_equal_nodes_get_blocks(self):
        answer = self.advice("tree", "all in one thread; at most")
        self.assertIn("strata::BlockAllocator", answer)
        self.expect_memory_saved("tree", answer)

    def test_messages_get_a_bitmap_pool(self):
        self.advice("messages", "are freed by another thread")

    def test_buffers_of_many_sizes_get_a_heap(self):
        answer = self.advice("buffers", "all in one thread; 31")
        self.assertNotIn("could not be tried", answer)

    def test_pieces_that_threads_replace_get_heaps(self):
        answer = self.advice("pieces", "of several threads, of which")
        self.assertNotIn("could not be tried", answer)

    def test_a_growing_vector_is_told_to_reserve(self):
        self.advice("growing", "take the place of a smaller one")

    def test_nothing_is_said_where_nothing_helps(self):
        self.advice("nothing", "Nothing here is worth changing.")

    def test_what_could_not_be_tried_is_told(self):
        own = self.path / "own"
        for folder in ("bin", "libexec"):
            (own / folder).mkdir(parents=True)
        command, cell = own / "bin" / "strata", own / "libexec" / "strata-cell"
        real = pathlib.Path(STRATA).resolve()
        shutil.copy(real, command)
        helpers = real.parent.parent / "libexec"
        (own / "libexec" / "strata-launch").symlink_to(helpers / "strata-launch")
        cell.write_text(f"""#!/bin/sh
case "$*" in *--route=block*) exit 1;; esac
exec {helpers / "strata-cell"} "$@"
""")
        cell.chmod(0o755)
        answer = subprocess.run([command, "advise", self.record("tree"), "--runs", "3", "--places", "1", "--quiet"],
                                capture_output=True, text=True, timeout=600).stdout
        self.assertIn("Nothing that could be tried is worth changing.", answer)
        self.assertRegex(answer, r"Not tried: .*, block\n.*\n +It could not be tried: .+\.\n")
        self.assertNotIn("Not worth it", answer)

    def test_a_replay_is_a_result_that_report_draws(self):
        results = self.path / "results.json"
        strata("replay", self.record("messages"), "--runs", 2, "--allocators", "system,strata", "--json", results,
               "--label", "first", "--quiet")
        whole = json.loads(results.read_text())
        self.assertRegex(whole["measured"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        rows = whole["rows"]
        self.assertEqual({row["label"] for row in rows}, {"first"})
        self.assertEqual([row["contender"] for row in rows], ["system", "strata"])
        for row in rows:
            self.assertTrue(row["ok"], row)
            self.assertGreater(row["metrics"]["peak_gain_bytes"]["median"], 0)
            self.assertEqual(row["metrics"]["ops"]["median"], row["params"]["calls"])
        page = self.path / "report.html"
        strata("report", results, "-o", page)
        self.assertIn("messages.trace", page.read_text())

        live = [point["live_bytes"] for point in rows[0]["timeline"] if "live_bytes" in point]
        self.assertGreater(len(live), 0)
        self.assertLessEqual(max(live), rows[0]["metrics"]["peak_live_bytes"]["median"] + 3 * 16384)
        self.assertIn("live bytes of the program", page.read_text())

    def test_a_replay_takes_as_much_memory_as_the_program(self):
        results = self.path / "believable.json"
        for program in ("parser", "tree"):
            strata("replay", self.record(program), "--runs", 3, "--allocators", "system,strata", "--json", results,
                   "--quiet")
            for row in json.loads(results.read_text())["rows"]:
                prefix = [STRATA, "run", "--"] if row["contender"] == "strata" else []
                grown = statistics.median(savings.run_once(program, "plain", *prefix)[2] for _ in range(3))
                replayed = row["metrics"]["peak_gain_bytes"]["median"]
                print(f"{program} under {row['contender']}: {grown} bytes, replayed {replayed:.0f}")
                # Code, touched for the first time, of the program and its libraries; and the kernel counts memory in
                # steps of 128 KiB a processor.
                code = 384 * 1024
                self.assertLessEqual(abs(replayed - grown), 0.1 * grown + code)

    def test_a_trace_is_a_scenario_of_bench(self):
        rows = {}
        for command, options in (("bench", ["--sample-rate", "0.02"]), ("replay", [])):
            results = self.path / f"{command}.json"
            strata(command, self.record("tree"), "--runs", 2, "--allocators", "system", "--json", results, "--quiet",
                   *options)
            rows[command] = json.loads(results.read_text())["rows"][0]
        for part in ("scenario", "params"):
            self.assertEqual(rows["bench"][part], rows["replay"][part])
        self.assertEqual(set(rows["bench"]["metrics"]), set(rows["replay"]["metrics"]))
        refused = strata("bench", self.record("tree"), "--threads", 2, status=2)
        self.assertIn("--threads has no effect on", refused.stderr)

    def test_the_page_has_every_part_and_fetches_nothing(self):
        page = self.path / "page.html"
        text = strata("explain", self.record("messages"), "-o", page, "--map", "system,strata").stdout
        self.assertIn("Freed by another thread", text)
        html = page.read_text()
        for part in ("course", "places", "lives", "sizes-lives", "threads", "pages"):
            self.assertIn(f'<section id="{part}">', html)
        self.assertIn("OS pages under strata ", html)
        self.assertIn("messages_plain", html)  # a place has its function's name
        self.assertFalse(re.findall(r'(?:src|href)="(?!#|data:)', html))

    def test_bad_input_gets_one_sentence(self):
        bad = self.path / "bad.trace"
        bad.write_bytes(b"no trace at all, whatever one thinks of it")
        for command in ("replay", "explain", "advise"):
            for words in ((), (bad,), (self.path / "missing",), (bad, bad, bad) if command != "replay" else (bad,)):
                result = strata(command, *words, status=None)
                self.assertNotEqual(result.returncode, 0)
                self.assertNotIn("terminate", result.stderr)
                self.assertLessEqual(len(result.stderr.strip().splitlines()), 2, result.stderr)


if __name__ == "__main__":
    unittest.main()
