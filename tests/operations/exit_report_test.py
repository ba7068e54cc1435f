#!/usr/bin/env python3
"""What is asked for at exit is said, also by programs that close their standard error before that.

usage: exit_report_test.py --program closes_stderr     (see there for what it does)
"""
import argparse
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

STATISTICS = "strata: statistics of process "
PROGRAM = ""


def run(*command, **options):
    return subprocess.run(command, env={**os.environ, **options}, capture_output=True, text=True, timeout=300)


class ExitReport(unittest.TestCase):
    def test_statistics_appear_after_the_program_closed_its_standard_error(self):
        done = run(PROGRAM, "at_exit", STRATA_STATS="exit")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count(STATISTICS), 1)

    @unittest.skipUnless("LD_PRELOAD" in os.environ, "for the library that is preloaded")
    def test_statistics_of_coreutils_appear(self):
        done = run("ls", "/", STRATA_STATS="exit")
        self.assertEqual(done.stderr.count(STATISTICS), 1)

    def test_leaks_appear_after_the_program_closed_its_standard_error(self):
        done = run(PROGRAM, "at_exit", STRATA_LEAKS="1")
        self.assertIn("live at exit", done.stderr)

    def test_a_profile_that_is_not_written_is_told_after_the_program_closed_its_standard_error(self):
        done = run(PROGRAM, "at_exit", STRATA_PROFILE="/no/such/folder/profile")
        self.assertIn("strata: warning: the profile /no/such/folder/profile is not written: No such", done.stderr)

    def test_a_program_whose_standard_error_nobody_reads_ends_as_it_would(self):
        reader, writer = os.pipe()
        os.close(reader)
        environment = {**os.environ, "STRATA_STATS": "exit", "STRATA_LEAKS": "1"}
        done = subprocess.run([PROGRAM, "list"], env=environment, stdout=subprocess.DEVNULL, stderr=writer, timeout=300)
        os.close(writer)
        self.assertEqual(done.returncode, 0)

    def test_nothing_is_written_to_a_file_that_has_taken_the_number(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "file"
            done = run(PROGRAM, "reused", str(file), STRATA_STATS="exit")
            self.assertEqual(done.returncode, 0)
            self.assertEqual(file.read_text(), "")

    def test_nothing_is_written_to_data_that_has_the_number_of_standard_error(self):
        with tempfile.TemporaryDirectory() as folder:
            for options in [{"STRATA_STATS": "exit"}, {"STRATA_LEAKS": "1"}, {"STRATA_PROFILE": "/no/such/folder/p"},
                            {"STRATA_STATS": "exit", "STRATA_STATS_FILE": "/no/such/folder/statistics"}]:
                file = pathlib.Path(folder) / "data"
                self.assertEqual(run(PROGRAM, "data", str(file), **options).returncode, 0)
                self.assertEqual(file.read_text(), "data", options)
                file.unlink()

    def test_a_log_that_is_appended_to_is_standard_error(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "log"
            self.assertEqual(run(PROGRAM, "log", str(file), STRATA_STATS="exit").returncode, 0)
            self.assertEqual(file.read_text().count(STATISTICS), 1)

    def test_where_there_are_few_descriptors_none_is_kept(self):
        done = subprocess.run([PROGRAM, "dup", "20"], env={**os.environ, "STRATA_STATS": "exit"}, timeout=300,
                              stderr=subprocess.PIPE, text=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32)))
        self.assertEqual((done.returncode, done.stderr.count(STATISTICS)), (0, 1), done.stderr)

    def test_a_limit_of_the_size_of_files_costs_the_report_and_not_the_program(self):
        def limited(folder, **options):
            return subprocess.run([PROGRAM, "list"], env={**os.environ, **options}, cwd=folder, timeout=300,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
        with tempfile.TemporaryDirectory() as folder:
            done = limited(folder, STRATA_STATS="exit", STRATA_STATS_FILE="statistics")
            self.assertEqual(done.returncode, 0)
            self.assertIn("warning: the file statistics cannot be written: File too large; standard error is used\n" +
                          STATISTICS, done.stderr)
            done = limited(folder, STRATA_PROFILE="profile", STRATA_PROFILE_RATE="1")
            self.assertEqual(done.returncode, 0)
            self.assertIn("the profile profile is not written: File too large", done.stderr)
            self.assertEqual(os.listdir(folder), ["statistics"])

    def test_processes_that_share_a_file_of_statistics_write_whole_reports_with_their_number(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "statistics"
            options = {"STRATA_STATS": "exit", "STRATA_STATS_FILE": str(file)}
            running = [subprocess.Popen([PROGRAM, "list"], env={**os.environ, **options}, stdout=subprocess.DEVNULL)
                       for _ in range(20)]
            self.assertEqual([each.wait(300) for each in running], [0] * 20)
            reports = file.read_text().split(STATISTICS)[1:]
            self.assertEqual({int(each.split(",")[0]) for each in reports}, {each.pid for each in running})
            lines = [[line.split()[1] for line in each.splitlines()[1:] if line[8].isalpha()] for each in reports]
            self.assertEqual(lines, [lines[0]] * 20)

    def test_a_daemon_does_not_hold_the_pipe_that_it_closed(self):
        options = dict(env={**os.environ, "STRATA_STATS": "exit"}, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        with subprocess.Popen([PROGRAM, "daemon"], text=True, **options) as parent:
            # Ends although the daemon lives: it waits for the end of its input.
            self.assertEqual(parent.stderr.read().count(STATISTICS), 1)
            parent.stdin.close()

    def test_a_program_that_writes_a_title_over_its_environment_still_writes_to_the_files_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            statistics, profile = pathlib.Path(folder) / "statistics", pathlib.Path(folder) / "profile"
            options = {"STRATA_STATS": "exit", "STRATA_STATS_FILE": str(statistics), "STRATA_PROFILE": str(profile)}
            done = subprocess.run([PROGRAM, "titled"], env={**os.environ, **options}, cwd=folder, timeout=300)
            self.assertEqual(done.returncode, 0)
            self.assertEqual({path.name for path in pathlib.Path(folder).iterdir()}, {"statistics", "profile"})
            self.assertIn(STATISTICS, statistics.read_text())

    def test_the_next_program_has_no_descriptor_of_ours(self):
        self.assertEqual(run(PROGRAM, "exec", STRATA_STATS="exit").stdout, run(PROGRAM, "list").stdout)

    @unittest.skipIf("LD_PRELOAD" in os.environ, "for a program that is linked with the library")
    @unittest.skipIf(os.geteuid() != 0, "only root can make a program of another user")
    def test_a_program_with_rights_of_its_own_takes_no_options_from_its_caller(self):
        with tempfile.TemporaryDirectory() as folder:
            if os.statvfs(folder).f_flag & os.ST_NOSUID:
                self.skipTest("programs in /tmp have no rights of their own")
            os.chmod(folder, 0o777)
            program, file = pathlib.Path(folder) / "program", pathlib.Path(folder) / "file"
            shutil.copy(PROGRAM, program)
            options = {"STRATA_STATS": "exit", "STRATA_STATS_FILE": str(file), "STRATA_NO_OPTION": "1"}
            self.assertIn("is not an option", run(str(program), **options).stderr)
            self.assertIn(STATISTICS, file.read_text())
            file.unlink()
            os.chown(program, 65534, 65534)
            program.chmod(0o4755)
            self.assertEqual(run(str(program), **options).stderr, "")
            self.assertFalse(file.exists())

    def test_statistics_of_both_kinds_are_one_at_each_signal_and_one_at_exit(self):
        with tempfile.TemporaryDirectory() as folder:
            for way, number, at_signal, at_exit in (("both", None, 1, 1), ("both", signal.SIGUSR1, 1, 1),
                                                    ("signal", None, 1, 0), ("exit", None, 0, 1)):
                file = pathlib.Path(folder) / "statistics"
                options = {"STRATA_STATS": way, "STRATA_STATS_FILE": str(file)}
                if number is not None:
                    options["STRATA_STATS_SIGNAL"] = str(int(number))
                with subprocess.Popen([PROGRAM, "waits"], env={**os.environ, **options}, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True) as process:
                    self.assertEqual(process.stdout.readline(), "begun\n")
                    if at_signal:
                        process.send_signal(number or signal.SIGUSR2)
                        while not file.exists() or file.read_text().count(STATISTICS) < at_signal:
                            time.sleep(0.01)
                    process.stdin.close()
                    self.assertEqual(process.wait(300), 0)
                self.assertEqual(file.read_text().count(STATISTICS), at_signal + at_exit, options)
                file.unlink()

    def test_nobody_has_a_further_descriptor_who_did_not_ask(self):
        for options in [{}, {"STRATA_STATS": "signal"}, {"STRATA_STATS": "exit", "STRATA_STATS_FILE": "/dev/null"}]:
            self.assertEqual(run(PROGRAM, "list", **options).stdout.split(), ["0", "1", "2"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    arguments, rest = parser.parse_known_args()
    PROGRAM = arguments.program
    unittest.main(argv=[sys.argv[0], *rest])
