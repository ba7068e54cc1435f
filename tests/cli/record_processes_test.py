#!/usr/bin/env python3
"""`strata record` with what a program does with its process: its files, its children, what it becomes. The
environment is that of end_to_end_test.py."""
import os
import signal
import unittest

from end_to_end_test import FIXTURES, INSTRUMENTED
from record_test import RECORDED, Recorded, Trace

PROCESS = str(FIXTURES / "recorded_process")


class RecordProcesses(Recorded):
    def assert_calls(self, trace, *sizes):
        self.assertEqual([len(trace.of_size(size)) for size in (9001, 9002, 9003)], list(sizes))
        self.assertEqual((trace.ending.get("reason"), trace.dropped), ("exit", 0))

    def record_under(self, limit_kib, *options):
        return self.record("sh", "-c", f'ulimit -v {limit_kib}; exec "$0" churn 20000', RECORDED, options=options)

    @unittest.skipIf(INSTRUMENTED, "a sanitizer's own memory is larger than the limits")
    def test_where_the_address_space_is_too_small_for_the_recorder_the_program_runs_unrecorded(self):
        for limit_kib, options, needed in ((14_000, (), "112 MiB of address space .10 with --stacks off."),
                                           (80_000, (), "112 MiB of address space .10 with --stacks off."),
                                           (14_000, ("--stacks", "off"), "10 MiB of address space")):
            with self.subTest(limit_kib=limit_kib, options=options):
                done = self.record_under(limit_kib, *options)
                self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
                self.assertRegex(done.stderr, rf"(?m)^strata record: the recorder needs {needed}, and there is less; "
                                              r"the program runs unrecorded$")
                self.assertEqual(len(self.siblings()), 0)

    @unittest.skipIf(INSTRUMENTED, "a sanitizer's own memory is larger than the limits")
    def test_with_the_address_space_that_it_needs_a_program_is_recorded_with_its_stacks(self):
        for limit_kib, options, has_stacks in ((150_000, (), True), (30_000, ("--stacks", "off"), False)):
            with self.subTest(limit_kib=limit_kib):
                done = self.record_under(limit_kib, *options)
                self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
                trace = Trace(self.siblings()[0])
                self.assertGreater(len(trace.events), 30_000)
                self.assertEqual((trace.ending["reason"], trace.dropped), ("exit", 0))
                self.assertEqual((len(trace.stacks) > 0, len(trace.modules) > 0), (has_stacks, has_stacks))

    @unittest.skipIf(INSTRUMENTED, "a sanitizer's own memory is larger than the limits")
    def test_where_no_address_space_is_left_calls_are_lost_and_counted(self):
        done = self.record(RECORDED, "churn-without-addresses", "20000", options=("--stacks", "off"))
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
        self.assertEqual(done.stderr.count("there is no memory left for the recorder; calls are lost\n"), 1)
        self.assertGreater(Trace(self.path).dropped, 10_000)

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

    def test_a_filter_that_ends_the_recorders_thread_ends_the_recording_and_not_the_program(self):
        done = self.record(PROCESS, "ends-the-recorder-by-a-filter", options=("--stacks", "off"))
        self.assertEqual(done.returncode, 0, done.stderr)
        trace = Trace(self.path)
        self.assertEqual((len(trace.of_size(9001)), trace.ending), (1, {}))

    def test_a_child_that_only_the_system_call_makes_runs_unrecorded(self):
        self.assert_calls(self.trace_of(PROCESS, "forks-by-the-system-call", options=("--stacks", "off")), 1, 0, 1)
        self.assertEqual(self.siblings(), [])

    def test_a_child_of_a_child_that_does_not_allocate_is_recorded(self):
        self.assert_calls(self.trace_of(PROCESS, "forks-twice"), 1, 0, 1)
        (grandchild,) = self.siblings()
        self.assert_calls(Trace(grandchild), 0, 20000, 0)

    def test_a_child_that_does_not_allocate_first_is_recorded(self):
        for how in ("vfork", "clone"):
            with self.subTest(how=how):
                self.assert_calls(self.trace_of(PROCESS, "forks-in-a-child", how), 1, 0, 0)
                (child,) = self.siblings()
                self.assert_calls(Trace(child), 0, 0, 20000)

    def test_a_child_that_shares_the_memory_is_part_of_the_recording(self):
        self.assert_calls(self.trace_of(PROCESS, "forks-and-shares-memory"), 1, 1, 1)

    def test_a_fork_waits_no_longer_than_the_recorder_has_work_at_hand(self):
        done = self.record(PROCESS, "forks-among-threads", "3", options=("--stacks", "off"))
        self.assertEqual(done.returncode, 0, done.stderr)
        # What threads can note while the recorder's thread takes what they had noted before: 32 MiB each.
        self.assertLess(int(done.stdout), 8_000_000)


if __name__ == "__main__":
    unittest.main()
