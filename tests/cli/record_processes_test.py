#!/usr/bin/env python3
"""`strata record` with what a program does with its process: its files, its children, what it becomes. The
environment is that of end_to_end_test.py."""
import os
import signal
import unittest

from end_to_end_test import FIXTURES
from record_test import Recorded, Trace

PROCESS = str(FIXTURES / "recorded_process")


class RecordProcesses(Recorded):
    def assert_calls(self, trace, *sizes):
        self.assertEqual([len(trace.of_size(size)) for size in (9001, 9002, 9003)], list(sizes))
        self.assertEqual((trace.ending.get("reason"), trace.dropped), ("exit", 0))

    def test_a_program_that_closes_all_files_is_recorded_to_its_end(self):
        self.assert_calls(self.trace_of(PROCESS, "closes-all-files"), 1, 20000, 0)

    def test_a_program_has_every_number_of_a_file_for_itself(self):
        own = self.folder / "own"
        trace = self.trace_of(PROCESS, "takes-all-numbers", str(own))
        self.assertEqual(own.read_bytes(), b"words\n")
        self.assert_calls(trace, 1, 20000, 0)
        self.assert_calls(self.trace_of(PROCESS, "writes-to-all-numbers"), 0, 1021, 0)

    def test_a_lock_of_a_shell_is_held(self):
        lock = self.folder / "lock"
        script = f"exec 200>{lock}; flock -n 200 && ! flock -n {lock} true && echo $$ >&200 && cat {lock}"
        done = self.record("bash", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(lock.read_text(), done.stdout)
        self.assertRegex(done.stdout, r"^\d+\n$")

    def test_what_a_program_closes_is_closed(self):
        answer = self.folder / "answer"
        os.mkfifo(answer)
        done = self.record("sh", "-c", f"{PROCESS} lets-go {answer} 2>&1 | (cat; echo > {answer})")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_program_that_becomes_another_leaves_what_it_did(self):
        for call in ("execl", "execlp", "execle", "execv", "execvp", "execve", "execvpe", "execveat", "fexecve"):
            with self.subTest(call=call):
                done = self.record(PROCESS, "becomes", call)
                has_environment = call in ("execle", "execve", "execvpe", "execveat", "fexecve")
                self.assertEqual((done.returncode, done.stdout.split()),
                                 (0, ["one", "two"] + has_environment * ["mark"]), done.stderr)
                trace = Trace(self.path)
                self.assertEqual((len(trace.of_size(9001)), trace.ending), (1, {}))

    def test_a_program_that_becomes_a_daemon_leaves_what_it_did(self):
        trace = self.trace_of(PROCESS, "becomes-a-daemon")
        self.assertEqual((len(trace.of_size(9001)), trace.ending), (1, {}))

    def test_a_quick_exit_is_an_end(self):
        self.assertEqual(self.record(PROCESS, "ends-quickly").returncode, 3)
        self.assert_calls(Trace(self.path), 1, 1, 0)

    def test_a_program_ends_with_its_only_thread(self):
        for word, status in (("ends-its-only-thread", 7), ("is-killed-by-a-filter", -signal.SIGSYS)):
            with self.subTest(word=word):
                self.assertEqual(self.record(PROCESS, word).returncode, status)
                self.assert_calls(Trace(self.path), 1, 0, 0)

    def test_a_child_that_only_the_system_call_makes_runs_unrecorded(self):
        self.assert_calls(self.trace_of(PROCESS, "forks-by-the-system-call", options=("--stacks", "off")), 1, 0, 1)
        self.assertEqual(self.siblings(), [])

    def test_a_child_that_shares_the_memory_is_part_of_the_recording(self):
        self.assert_calls(self.trace_of(PROCESS, "forks-and-shares-memory"), 1, 1, 1)

    def test_a_fork_waits_no_longer_than_the_recorder_has_work_at_hand(self):
        done = self.record(PROCESS, "forks-among-threads", "3", options=("--stacks", "off"))
        self.assertEqual(done.returncode, 0, done.stderr)
        # What threads can note while the recorder's thread takes what they had noted before: 32 MiB each.
        self.assertLess(int(done.stdout), 8_000_000)


if __name__ == "__main__":
    unittest.main()
