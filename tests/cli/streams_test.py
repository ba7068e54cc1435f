#!/usr/bin/env python3
"""`strata` where its standard streams are closed or full: what was measured is kept, and so is every exit
status. The environment is that of end_to_end_test.py."""
import json
import os
import shutil
import signal
import subprocess
import unittest

import schema
from end_to_end_test import InFolder, LIKE_STRATA, PROGRAM, SCHEMA, STRATA, strata

BENCH = ("bench", "churn", "--runs", "1", "--ops", "1000", "--settle", "0", "--allocators", "system")


def strata_with(redirection, *arguments):
    return subprocess.run(["sh", "-c", f'exec "$0" "$@" {redirection}', STRATA, *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)


class Streams(InFolder):
    def check_results(self, path):
        results = json.loads(path.read_text())
        self.assertEqual(schema.check(results, SCHEMA), [])
        self.assertTrue(results["rows"][0]["ok"], results["rows"][0])

    def test_a_refusal_that_nobody_can_read_has_its_status(self):
        for redirection in ("2>&-", "2>/dev/full", ">&- 2>&-", "<&- >&- 2>&-"):
            for status, words in ((2, ["bogus"]), (127, ["run", "--library", LIKE_STRATA, "--", "no-such-program"]),
                                  (3, ["run", "--library", LIKE_STRATA, "--", PROGRAM, "exit", "3"])):
                with self.subTest(redirection=redirection, words=words):
                    self.assertEqual(strata_with(redirection, *words).returncode, status)

    def test_results_are_kept_that_nobody_is_told_of(self):
        path = self.folder / "results.json"
        commands = (("compare", "--runs", "1", "--warmup", "0", "--allocators", "system", "--json", str(path), "--",
                     PROGRAM), (*BENCH, "--json", str(path)))
        for redirection in ("2>/dev/full", "2>&-", "<&- 2>&-"):
            for words in commands:
                with self.subTest(redirection=redirection, command=words[0]):
                    path.unlink(missing_ok=True)
                    for _ in range(2):  # the second time it says that it replaces the first
                        self.assertEqual(strata_with(redirection, *words).returncode, 0)
                        self.check_results(path)

    def test_results_in_a_pipe_need_no_table(self):
        done = strata_with("2>/dev/full", "compare", "--runs", "1", "--allocators", "system", "--json", "-", "--", PROGRAM)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(json.loads(done.stdout)["rows"][0]["ok"])

    def test_results_are_kept_where_standard_output_is_closed(self):
        path = self.folder / "results.json"
        done = strata_with(">&-", *BENCH, "--json", str(path))
        self.assertEqual((done.returncode, done.stderr.splitlines()[-1]),
                         (1, "strata bench: could not write to standard output: Bad file descriptor"), done.stderr)
        self.check_results(path)

    def test_a_file_is_not_taken_for_standard_output_that_is_closed(self):
        path = self.folder / "results.json"
        done = strata_with(">&-", "compare", "--runs", "1", "--quiet", "--allocators", "system", "--json", str(path), "--",
                           PROGRAM)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.check_results(path)

    def test_a_text_that_could_not_be_written_is_no_success(self):
        for words in (["--help"], ["--version"], ["run", "--help"], ["bench", "list"], ["options"]):
            for redirection, reason in ((">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")):
                with self.subTest(words=words, redirection=redirection):
                    done = strata_with(redirection, *words)
                    self.assertEqual(done.returncode, 1)
                    self.assertIn(f"could not write to standard output: {reason}\n", done.stderr)

    def test_a_pipe_that_is_read_no_more_loses_nothing(self):
        page, trace, temporary = self.folder / "page.html", self.folder / "trace", self.folder / "temporary"
        temporary.mkdir()
        self.assertEqual(strata_with("", "record", "-o", str(trace), "--", PROGRAM).returncode, 0)
        commands = [(BENCH, -signal.SIGPIPE), (("bench", "list"), -signal.SIGPIPE),
                    (("replay", str(trace), "--runs", "1", "--allocators", "system"), -signal.SIGPIPE),
                    (("trace", "csv", str(trace)), -signal.SIGPIPE),
                    (("run", "--leaks", "--library", LIKE_STRATA, "--", PROGRAM, "exit", "3"), 3)]
        if shutil.which("gnuplot"):
            commands.append((("explain", str(trace), "-o", str(page)), -signal.SIGPIPE))
        for words, status in commands:
            for streams in ("stdout", "stderr"):
                with self.subTest(command=words[:2], streams=streams):
                    page.unlink(missing_ok=True)
                    reading, writing = os.pipe()
                    os.close(reading)
                    others = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
                    process = subprocess.Popen([STRATA, *words], text=True, env={**os.environ, "TMPDIR": str(temporary)},
                                               **{**others, streams: writing})
                    os.close(writing)
                    err = process.communicate(timeout=300)[1]
                    if streams == "stdout":
                        self.assertEqual(process.returncode, status, err)
                        self.assertNotIn("could not write", err)
                    else:
                        self.assertEqual(process.returncode, max(status, 0))
                    self.assertEqual(list(temporary.iterdir()), [])
                    if words[0] == "explain":
                        self.assertIn("</html>", page.read_text())

    def test_who_ignores_the_signal_of_pipes_hears_of_it(self):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(["sh", "-c", 'trap "" PIPE; exec "$0" "$@"', STRATA, "bench", "list"], stdout=writing,
                              stderr=subprocess.PIPE, text=True, timeout=300)
        os.close(writing)
        self.assertEqual(done.returncode, 1)
        self.assertIn("could not write to standard output: Broken pipe", done.stderr)

    def test_where_no_temporary_file_can_be_made_the_sentence_says_what_to_do(self):
        done = strata(*BENCH, env={**os.environ, "TMPDIR": "/proc"})
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, "cannot make a temporary file like /proc/.*: .*; set TMPDIR to a folder that you may write")

    def test_a_limit_of_files_is_a_failure_that_leaves_nothing(self):
        trace, csv, temporary = self.folder / "trace", self.folder / "trace.csv", self.folder / "temporary"
        temporary.mkdir()
        self.assertEqual(strata_with("", "record", "-o", str(trace), "--", PROGRAM).returncode, 0)
        before = set(self.folder.iterdir())
        for words in (("trace", "csv", str(trace), "-o", str(csv)), (*BENCH, "--json", str(csv))):
            done = subprocess.run(["sh", "-c", 'ulimit -f 0; exec "$0" "$@"', STRATA, *words], capture_output=True,
                                  text=True, timeout=300, env={**os.environ, "TMPDIR": str(temporary)})
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, r"(could not|cannot) write .*: File too large\n")
            self.assertEqual((set(self.folder.iterdir()), list(temporary.iterdir())), (before, []))

    def test_signals_of_writes_are_the_commands_own(self):
        for words in (("run", "--library", LIKE_STRATA), ("record", "-o", str(self.folder / "trace"))):
            done = strata_with("", *words, "--", "sh", "-c", "kill -PIPE $$")
            self.assertEqual(done.returncode, -signal.SIGPIPE, done.stderr)
        done, rows = self.compare("--runs", "1", "--warmup", "0", command=("sh", "-c", "kill -PIPE $$"))
        self.assertIn("killed by SIGPIPE", rows["system"]["reason"])


if __name__ == "__main__":
    unittest.main()
