#!/usr/bin/env python3
"""The `strata` command from end to end: what a user types, and what comes of it.

ctest gives CLI_TEST_BIN (the command) and CLI_TEST_FIXTURES (small programs and libraries);
CLI_TEST_SANITIZER is set when the command is instrumented.
"""
import csv
import fcntl
import io
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

import schema
from example_results import example_results

# A shell starts background programs with these ignored, and so does nohup. The programs under test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

STRATA = os.environ["CLI_TEST_BIN"]
FIXTURES = pathlib.Path(os.environ["CLI_TEST_FIXTURES"])
INSTRUMENTED = bool(os.environ.get("CLI_TEST_SANITIZER"))
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCHEMA = json.loads((ROOT / "docs" / "results-schema.json").read_text())
# Without the options that the shell sets for the library: they would change what is tested.
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}

PROGRAM = str(FIXTURES / "program")
FORWARDING = str(FIXTURES / "libforwarding_malloc.so")
LIKE_STRATA = str(FIXTURES / "liblike_strata.so")  # the same, with three options


def strata(*arguments, **options):
    options = {"stdin": subprocess.DEVNULL, "timeout": 300, **options}
    return subprocess.run([STRATA, *arguments], capture_output=True, text=True, **options)


def library(name):
    return f"{name}={FIXTURES / f'lib{name}.so'}"


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="strata-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def compare(self, *arguments, allocators="system", command=(PROGRAM,), **options):
        """Runs compare, validates what it wrote, and returns (completed process, rows by contender)."""
        path = self.folder / "results.json"
        done = strata("compare", "--allocators", allocators, "--json", str(path), *arguments, "--",
                      *command, **options)
        self.assertTrue(path.exists(), done.stderr)
        results = json.loads(path.read_text())
        self.assertEqual(schema.check(results, SCHEMA), [])
        return done, {row["contender"]: row for row in results["rows"]}

    def in_terminal(self, *words, columns=80, kind="xterm"):
        """What a terminal gets of the command, which is to succeed."""
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([STRATA, *words], stdin=subprocess.DEVNULL, stdout=follower, stderr=follower,
                                   env={**os.environ, "TERM": kind})
        os.close(follower)
        text = b""
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            text += part
        os.close(leader)
        self.assertEqual(process.wait(timeout=100), 0)
        return text.decode()


class Run(unittest.TestCase):
    def run_program(self, *words, options=()):
        return strata("run", "--library", LIKE_STRATA, *options, "--", PROGRAM, *words)

    def test_the_exit_status_is_the_commands_own(self):
        for status in (0, 3, 126, 127, 128, 139, 255):
            self.assertEqual(self.run_program("exit", str(status)).returncode, status)

    def test_a_signal_is_a_signal_and_no_exit_status(self):
        for number in (signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGINT):
            self.assertEqual(self.run_program("kill", str(int(number))).returncode, -number)

    def test_the_library_is_really_under_the_command(self):
        self.assertEqual(self.run_program("forwarded").stdout, "1\n")

    def test_programs_that_the_command_starts_have_it_too(self):
        done = strata("run", "--library", LIKE_STRATA, "--", "sh", "-c", f"{PROGRAM} forwarded; true")
        self.assertEqual(done.stdout, "1\n")

    def test_input_output_and_process_are_the_commands_own(self):
        process = subprocess.Popen(
            [STRATA, "run", "--library", LIKE_STRATA, "--", "sh", "-c", "cat; echo $$; echo e >&2"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = process.communicate("hello\n", timeout=300)
        self.assertEqual(out, f"hello\n{process.pid}\n")
        self.assertEqual(err, "e\n")

    def test_options_reach_the_library_through_the_environment(self):
        done = strata("run", "--library", LIKE_STRATA, "--stats", "--set", "checks=full", "--set",
                      "decay-ms=5", "--", "sh", "-c", "env | grep ^STRATA_[CDS][HET] | grep -v CLI")
        self.assertEqual(sorted(done.stdout.split()),
                         ["STRATA_CHECKS=full", "STRATA_DECAY_MS=5", "STRATA_STATS=exit"])

    @unittest.skipIf(INSTRUMENTED, "a sanitizer wants to be first in strata itself")
    def test_the_library_comes_in_front_of_those_already_preloaded(self):
        other = str(FIXTURES / "libno_malloc.so")
        done = strata("run", "--library", LIKE_STRATA, "--", "sh", "-c", "echo $LD_PRELOAD",
                      env={**os.environ, "LD_PRELOAD": other})
        self.assertEqual(done.stdout, f"{LIKE_STRATA}:{other}\n")

    def test_options_of_the_command_are_left_to_it(self):
        done = strata("run", "--library", LIKE_STRATA, "--", "echo", "--stats", "--", "--help")
        self.assertEqual(done.stdout, "--stats -- --help\n")

    def test_a_static_program_runs_with_a_warning(self):
        empty = str(FIXTURES / "empty_program")
        done = strata("run", "--library", LIKE_STRATA, "--", empty)
        self.assertEqual(done.returncode, 0)
        self.assertIn("is statically linked", done.stderr)

    def test_a_program_with_a_malloc_of_its_own_runs_with_a_warning(self):
        own, ordinary = str(FIXTURES / "own_malloc"), str(FIXTURES / "program")
        warning = "has a malloc of its own, so a preloaded one may never be called"
        with tempfile.TemporaryDirectory() as folder:
            for command in (("run", "--library", LIKE_STRATA),
                            ("record", "-o", f"{folder}/trace"),
                            ("compare", "--allocators", f"system,mine={FORWARDING}", "--runs", "1")):
                with self.subTest(command=command[0]):
                    self.assertIn(f"strata: warning: {own} {warning}\n", strata(*command, "--", own).stderr)
                    self.assertNotIn(warning, strata(*command, "--", ordinary).stderr)

    def test_inherited_signal_dispositions_are_kept(self):
        done = strata("run", "--library", LIKE_STRATA, "--", "grep", "-E", "SigIgn|SigBlk",
                      "/proc/self/status",
                      preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        plain = subprocess.run(["grep", "-E", "SigIgn|SigBlk", "/proc/self/status"], text=True,
                               capture_output=True,
                               preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(done.stdout, plain.stdout)


class Compare(InFolder):
    def test_every_contender_is_measured_as_often_as_asked(self):
        done, rows = self.compare("--runs", "3", allocators=f"system,{library('forwarding_malloc')}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(rows), ["system", "forwarding_malloc"])
        for row in rows.values():
            self.assertTrue(row["ok"])
            self.assertEqual(row["metrics"]["elapsed_s"]["n"], 3)
            self.assertEqual(row["params"]["command"], [PROGRAM])
            self.assertGreater(row["metrics"]["peak_rss_bytes"]["median"], 0)
        self.assertEqual(rows["forwarding_malloc"]["library"], FORWARDING)
        self.assertNotIn("library", rows["system"])
        self.assertEqual(rows["forwarding_malloc"]["scenario"], "program")

    def test_the_library_is_really_under_the_command(self):
        done, _ = self.compare("--runs", "1", "--warmup", "0", "--show-output",
                               allocators=f"system,{library('forwarding_malloc')}",
                               command=(PROGRAM, "forwarded"))
        self.assertRegex(done.stderr, r"--- system, round 1\n0\n")
        self.assertRegex(done.stderr, r"--- forwarding_malloc, round 1\n1\n")

    def test_broken_contenders_are_failed_rows_and_the_others_go_on(self):
        broken = ("crashes_at_load", "aborts_at_malloc", "hangs_at_malloc")
        done, rows = self.compare(
            "--runs", "2", "--timeout", "3",
            allocators=",".join(["system", *map(library, broken), library("forwarding_malloc")]))
        self.assertEqual(done.returncode, 1)
        self.assertTrue(rows["system"]["ok"])
        self.assertTrue(rows["forwarding_malloc"]["ok"])
        self.assertEqual(rows["forwarding_malloc"]["metrics"]["elapsed_s"]["n"], 2)
        self.assertRegex(rows["crashes_at_load"]["reason"], "^killed by SIG(ILL|TRAP), in warm-up 1 of 1$")
        self.assertEqual(rows["aborts_at_malloc"]["reason"], "killed by SIGABRT, in warm-up 1 of 1")
        self.assertEqual(rows["aborts_at_malloc"]["last_output"], "broken_malloc: I cannot")
        self.assertEqual(rows["hangs_at_malloc"]["reason"], "still running after 3 s, in warm-up 1 of 1")
        for name in broken:
            self.assertFalse(rows[name]["ok"])
            self.assertRegex(done.stdout, rf"(?m)^{name} +failed: {re.escape(rows[name]['reason'])}$")
        self.assertIn("Last output under aborts_at_malloc:\n  broken_malloc: I cannot\n", done.stdout)

    def test_a_kill_that_may_be_the_kernels_is_told_as_such(self):
        _, rows = self.compare("--runs", "1", command=(PROGRAM, "kill", str(int(signal.SIGKILL))))
        self.assertRegex(rows["system"]["reason"], r"^killed by SIGKILL \(perhaps by the kernel, out of memory: .*\), in ")

    def test_a_command_that_kills_its_group_is_a_failed_row_and_the_others_go_on(self):
        done, rows = self.compare("--runs", "2", allocators=f"system,{library('forwarding_malloc')}",
                                  command=("sh", "-c", "case $LD_PRELOAD in *forwarding*) kill -KILL 0;; esac; exit 0"))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(rows["system"]["metrics"]["elapsed_s"]["n"], 2)
        self.assertRegex(rows["forwarding_malloc"]["reason"],
                         r"^killed by SIGKILL, with its process group \(perhaps by .*\), in warm-up 1 of 1$")

    def test_a_command_that_fails_everywhere_is_suspected_itself(self):
        done, rows = self.compare(allocators=f"system,{library('forwarding_malloc')}",
                                  command=(PROGRAM, "exit", "3"))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(rows["system"]["reason"], "exit status 3, in warm-up 1 of 1")
        self.assertIn("does the command itself fail?", done.stdout)

    def test_a_file_on_standard_input_is_read_anew_by_each_run(self):
        path = self.folder / "input"
        path.write_text("hello\n")
        with path.open() as stdin:
            done, _ = self.compare("--runs", "2", "--show-output", command=("cat",), stdin=stdin)
        self.assertEqual(done.stderr.count("hello\n"), 3)

    def test_a_command_that_reads_the_terminal_is_a_failed_row(self):
        path = self.folder / "results.json"
        for command, stop in (("cat /dev/tty; exit 0", "SIGTTIN"), ("exec stty -echo < /dev/tty", "SIGTTOU")):
            with self.subTest(command=command):
                pid, terminal = pty.fork()
                if pid == 0:
                    try:
                        os.execv(STRATA, ["strata", "compare", "--allocators", "system", "--timeout", "60", "--quiet",
                                          "--json", str(path), "--", "sh", "-c", command])
                    finally:
                        os._exit(127)
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                os.close(terminal)
                self.assertEqual(status, 1)
                self.assertEqual(json.loads(path.read_text())["rows"][0]["reason"],
                                 f"stopped by {stop} (it uses the terminal, which no measured command has), "
                                 "in warm-up 1 of 1")

    def test_what_a_command_leaves_in_the_background_ends_with_its_run(self):
        sleepers = self.folder / "sleepers"
        done, _ = self.compare("--runs", "1", command=("sh", "-c", f"sleep 1000 & echo $! >> {sleepers}"))
        self.assertEqual(done.returncode, 0, done.stderr)
        for sleeper in sleepers.read_text().split():
            self.assertTrue(ends(sleeper), "it was left running")

    @unittest.skipIf(INSTRUMENTED, "a sanitizer wants to be first in strata itself")
    def test_an_allocator_preloaded_into_strata_itself_is_not_taken_for_the_systems(self):
        done, _ = self.compare("--runs", "1", "--warmup", "0", "--show-output",
                               command=("sh", "-c", "echo \"[$LD_PRELOAD]\""),
                               env={**os.environ, "LD_PRELOAD": FORWARDING})
        self.assertIn("[]\n", done.stderr)

    @unittest.skipIf(INSTRUMENTED, "a sanitizer wants to be first in strata itself")
    def test_nor_is_one_whose_file_the_dynamic_linker_finds(self):
        folder, name = FORWARDING.rsplit("/", 1)
        for preloaded in (name, f"$ORIGIN{'/..' * 40}{FORWARDING}", f"${{ORIGIN}}{'/..' * 40}{FORWARDING}"):
            with self.subTest(preloaded=preloaded):
                done, _ = self.compare("--runs", "1", "--warmup", "0", "--show-output", command=(PROGRAM, "forwarded"),
                                       env={**os.environ, "LD_PRELOAD": preloaded, "LD_LIBRARY_PATH": folder})
                self.assertIn("--- system, round 1\n0\n", done.stderr)

    def test_six_runs_are_the_default_as_the_help_says(self):
        done, rows = self.compare("--warmup", "0")
        self.assertEqual(rows["system"]["metrics"]["elapsed_s"]["n"], 6, done.stdout)
        self.assertIn("(default 6)", strata("compare", "--help").stdout)

    def test_the_peak_of_the_smallest_program_is_not_that_of_strata(self):
        _, rows = self.compare("--runs", "5", command=(str(FIXTURES / "empty_program"),))
        self.assertLess(rows["system"]["metrics"]["peak_rss_bytes"]["median"], 1 << 20)

    def test_a_long_command_is_cut_between_characters(self):
        for word in ("ö" * 60, "x" + "ö" * 60):
            self.assertRegex(self.compare("--runs", "1", command=("echo", word))[0].stdout, r"(?m)^echo 'x?ö+\.\.\.$")

    def test_nothing_but_text_goes_into_a_pipe(self):
        done, _ = self.compare("--runs", "2", allocators=f"system,{library('forwarding_malloc')}")
        self.assertNotIn("\033", done.stdout + done.stderr)
        self.assertNotIn("\r", done.stdout + done.stderr)
        self.assertLessEqual(max(map(len, done.stdout.splitlines()[1:])), 100)

    def test_quiet_says_nothing(self):
        done, _ = self.compare("--runs", "1", "--quiet")
        self.assertEqual(done.stdout + done.stderr, "")

    def test_settings_reach_the_command_and_the_results(self):
        done, rows = self.compare("--runs", "1", "--warmup", "0", "--set", "checks=full", "--show-output",
                                  allocators=f"mine={LIKE_STRATA}", command=("sh", "-c", "echo $STRATA_CHECKS"))
        self.assertIn("full\n", done.stderr)
        self.assertEqual(rows["mine"]["params"]["STRATA_CHECKS"], "full")

    def test_strata_takes_part_once_with_each_varied_value(self):
        show = ("sh", "-c", "echo $STRATA_CHECKS, $STRATA_DECAY_MS.")
        done, rows = self.compare("--runs", "1", "--warmup", "0", "--vary", "checks=basic,full", "--set", "decay_ms=9",
                                  "--show-output", allocators=f"system,mine={LIKE_STRATA}", command=show)
        self.assertEqual(list(rows), ["system", "mine checks=basic", "mine checks=full"])
        for name, checks in zip(rows, ("", "basic", "full")):
            self.assertIn(f"--- {name}, round 1\n{checks}, 9.\n", done.stderr)
        done, rows = self.compare("--runs", "1", "--vary", "STRATA_CHECKS=basic,full", "--vary", "decay_ms=1,2",
                                  allocators=f"mine={LIKE_STRATA}")
        self.assertEqual(list(rows), ["mine checks=basic decay_ms=1", "mine checks=basic decay_ms=2",
                                      "mine checks=full decay_ms=1", "mine checks=full decay_ms=2"])

    def test_settings_count_for_a_program_that_is_linked_with_strata(self):
        command = (str(FIXTURES / "linked_with_strata"),)
        done, rows = self.compare("--runs", "1", "--set", "checks=full", allocators="system", command=command)
        self.assertEqual(rows["system"]["params"]["STRATA_CHECKS"], "full")
        done, rows = self.compare("--runs", "1", "--set", "decay_ms=9", allocators="system", command=command)
        self.assertEqual(rows["system"]["params"]["STRATA_DECAY_MS"], "9", "an option of its own library alone")
        done = strata("compare", "--allocators", "system", "--set", "cheks=full", "--", *command)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--set: STRATA_CHEKS is not an option", done.stderr)

    def test_an_allocator_that_the_program_brings_is_named(self):
        done, _ = self.compare("--runs", "1", command=(str(FIXTURES / "linked_program"),))
        self.assertIn("linked_program is linked with libtcmalloc_like.so", done.stdout)


class Refusals(InFolder):
    def refused(self, *arguments, status=2):
        done = strata(*arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        lines = done.stderr.splitlines()
        self.assertTrue(lines[0].startswith("strata"), lines)
        if status == 2:
            self.assertRegex(lines[-1], r"^Usage: strata( \w+)? --help$")
            self.assertEqual(len(lines), 2, "one sentence and the usage")
        return lines[0]

    def refused_compare(self, *options, command=(PROGRAM,)):
        return self.refused("compare", *options, "--", *command)

    def test_numbers_that_are_none(self):
        for bad in ("0", "-1", "1x", "1.5", "99999999999999999999"):
            self.assertIn(f"--runs is '{bad}'; give a whole number from 1 to",
                          self.refused_compare("--allocators", "system", f"--runs={bad}"))
        self.assertIn("--warmup is '-1'", self.refused_compare("--warmup", "-1"))
        self.assertIn("--timeout is 'soon'", self.refused_compare("--timeout", "soon"))

    def test_programs_that_are_none(self):
        self.assertIn("no program 'no-such-program' in PATH",
                      self.refused_compare("--allocators", "system", command=("no-such-program",)))
        self.assertIn("no program './none'",
                      self.refused_compare("--allocators", "system", command=("./none",)))
        self.assertIn("not executable",
                      self.refused_compare("--allocators", "system", command=("/etc/passwd",)))

    def test_a_script_without_its_interpreter(self):
        script = self.folder / "script"
        inner = self.folder / "inner"
        inner.write_text("#!/no/such/shell\n")
        inner.chmod(0o755)
        for line, sentence in (("#!/no/such/shell -e\n", "'/no/such/shell', which is not there; install it, or correct"),
                               ("#! /bin/sh\r\n", "'/bin/sh?', which is not there; end the lines of the script with \\n"),
                               (f"#!{inner}\n", "'/no/such/shell', which is not there; ")):
            script.write_bytes(line.encode())
            script.chmod(0o755)
            expected = f"'{script}' needs the interpreter {sentence}"
            self.assertIn(expected, self.refused_compare("--allocators", "system", command=(str(script),)))
            self.assertIn(expected, self.refused("run", "--library", LIKE_STRATA, "--", str(script), status=126))
        script.write_text("#!/bin/sh\nexit 3\n")
        self.assertEqual(strata("run", "--library", LIKE_STRATA, "--", str(script)).returncode, 3)

    def test_run_answers_like_a_shell(self):
        self.assertIn("no program 'no-such-program'",
                      self.refused("run", "--library", LIKE_STRATA, "--", "no-such-program", status=127))
        self.assertIn("not executable",
                      self.refused("run", "--library", LIKE_STRATA, "--", "/etc/passwd", status=126))
        self.assertIn("is a directory",
                      self.refused("run", "--library", LIKE_STRATA, "--", "/etc", status=126))

    def test_allocators_that_are_none(self):
        self.assertIn("unknown allocator 'hoard'", self.refused_compare("--allocators", "system,hoard"))
        self.assertIn("empty entry", self.refused_compare("--allocators", "system,"))
        self.assertIn("'system' is given twice", self.refused_compare("--allocators", "system,system"))

    def test_settings_that_an_option_has_too(self):
        file = str(self.folder / "heap.pb.gz")
        for option, setting in ((("--stats",), "stats=off"), (("--profile", file), "profile=x"), (("--leaks",), "profile=x"),
                                (("--leaks",), "STRATA_LEAKS=1"), (("--leaks",), "profile-rate=1"),
                                (("--profile", file, "--profile-rate", "1"), "profile-rate=2")):
            name = "STRATA_" + setting.split("=")[0].upper().replace("-", "_").removeprefix("STRATA_")
            self.assertIn(f"and --set of {name} exclude each other; give one of them",
                          self.refused("run", "--library", LIKE_STRATA, *option, "--set", setting, "--", PROGRAM))

    def test_a_file_in_a_folder_that_cannot_be_looked_into(self):
        loop = self.folder / "loop"
        loop.symlink_to(loop)
        done = strata("compare", "--allocators", "system", "--json", str(loop / "x.json"), "--", PROGRAM, cwd=self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("x.json': Too many levels of symbolic links; give a path that you may write", done.stderr)
        self.assertEqual(os.listdir(self.folder), ["loop"])

    def test_options_for_strata_without_strata(self):
        others = ("--allocators", f"system,mine={FORWARDING}")
        self.assertIn("--set has no effect: Strata is not among the allocators", self.refused_compare(*others, "--set", "checks=full"))
        self.assertIn("--set: STRATA_CHEKS is not an option",
                      self.refused_compare("--allocators", f"mine={LIKE_STRATA}", "--set", "cheks=full"))
        mine = ("--allocators", f"mine={LIKE_STRATA}")
        self.assertIn("--vary: STRATA_CHEKS is not an option", self.refused_compare(*mine, "--vary", "cheks=full"))
        self.assertIn("--vary is 'checks'; give name=value", self.refused_compare(*mine, "--vary", "checks"))
        self.assertIn("--vary has an empty entry", self.refused_compare(*mine, "--vary", "checks=full,"))
        self.assertIn("--vary has full twice", self.refused_compare(*mine, "--vary", "checks=full,full"))
        self.assertIn("--vary: 'a?b' cannot be part of a name", self.refused_compare(*mine, "--vary", "stats=x,a\nb"))
        self.assertIn("--set is '[a,b]'; give name=value", self.refused_compare(*mine, "--set", "[a,b]"))
        for twice in (("--set", "checks=full"), ("--vary", "checks=frees")):
            self.assertIn("--vary: STRATA_CHECKS has a value already; give it once",
                          self.refused_compare(*mine, *twice, "--vary", "checks=basic"))
        for command, *words in (("compare", "--", PROGRAM), ("bench", "churn")):
            self.assertIn("--set has no effect: Strata is not among the allocators; add strata",
                          self.refused(command, *others, "--set", "checks=full", *words))
            self.assertIn("--vary needs Strata among the allocators; add strata to --allocators",
                          self.refused(command, *others, "--vary", "checks=full", *words))
            for names in (others, ("--allocators", f"strata={FORWARDING}")):
                self.assertIn("--library has no effect: it is for the allocator",
                              self.refused(command, *names, "--library", LIKE_STRATA, *words))

    def test_libraries_that_cannot_be_preloaded(self):
        for path, reason in (
            ("/no/such/lib.so", "does not exist"),
            ("/etc/passwd", "is not an ELF file"),
            (PROGRAM, "is a program, not a shared library"),
            (str(FIXTURES / "libno_malloc.so"), "does not define malloc"),
        ):
            sentence = self.refused_compare("--allocators", f"system,mine={path}")
            self.assertIn(f"mine: {path} {reason}", sentence)
            self.assertIn(reason, self.refused("run", "--library", path, "--", PROGRAM))

    def test_a_malloc_of_others_is_not_stratas_library(self):
        for words in (("run",), ("run", "--stats"), ("run", "--leaks"), ("run", "--set", "checks=bogus"), ("compare",)):
            self.assertIn(f"strata: {FORWARDING} lists no options; it is not Strata's library",
                          self.refused(*words, "--library", FORWARDING, "--", PROGRAM))
        self.assertIn("it is not Strata's library", self.refused("options", "--library", FORWARDING))
        for words in (("run",), ("compare",), ("options",)):
            more = () if words == ("options",) else ("--", PROGRAM)
            self.assertIn("--library needs a value", self.refused(*words, "--library", "", *more))

    @unittest.skipIf(INSTRUMENTED, "the sanitizer needs /proc, too")
    def test_without_proc_the_reason_is_told(self):
        hidden = ["unshare", "-Urm", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
        if subprocess.run([*hidden, "true"], capture_output=True).returncode != 0:
            self.skipTest("no namespace of its own")
        done = subprocess.run([*hidden, STRATA, "run", "--", PROGRAM], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (1, "", "strata run: /proc/self/exe cannot be read: No such file or directory; strata needs "
                                 "/proc, as mounted by: mount -t proc proc /proc\n"))

    def test_a_folder_is_no_library(self):
        for words in (("run", "--library", str(self.folder)), ("compare", "--allocators", f"mine={self.folder}")):
            self.assertIn(f"{self.folder} is a folder; give the library in it", self.refused(*words, "--", PROGRAM))

    def test_a_library_in_a_folder_with_a_space(self):
        folder = self.folder / "a b"
        folder.mkdir()
        shutil.copy(FORWARDING, folder)
        self.assertIn("has a space or a colon in its path",
                      self.refused_compare("--allocators", f"mine={folder}/libforwarding_malloc.so"))

    def test_a_library_that_lacks_what_it_stands_on(self):
        copy = self.folder / "libneeds_missing.so"
        # Without the run path that leads it to its neighbour in the build tree.
        text = (FIXTURES / "libneeds_missing.so").read_bytes()
        copy.write_bytes(text.replace(bytes(str(FIXTURES), "utf8"), b"/x" + b"/" * (len(str(FIXTURES)) - 2)))
        self.assertIn("libno_malloc.so, which it needs, is not found",
                      self.refused_compare("--allocators", f"mine={copy}"))

    def test_a_library_of_another_machine(self):
        copy = self.folder / "libforeign.so"
        data = bytearray(pathlib.Path(FORWARDING).read_bytes())
        data[18] ^= 0xFF  # the instruction set in the ELF header
        copy.write_bytes(data)
        self.assertIn("built for another kind of processor",
                      self.refused_compare("--allocators", f"mine={copy}"))

    def test_a_library_cut_short(self):
        copy = self.folder / "libshort.so"
        data = pathlib.Path(FORWARDING).read_bytes()
        for bytes_kept in (0, 3, 20, 64, 200, len(data) // 2):
            copy.write_bytes(data[:bytes_kept])
            self.refused_compare("--allocators", f"mine={copy}")

    def test_a_static_program(self):
        sentence = self.refused_compare("--allocators", library("forwarding_malloc"),
                                        command=(str(FIXTURES / "empty_program"),))
        self.assertIn("is statically linked", sentence)

    def test_a_program_with_file_capabilities(self):
        copy, other = str(self.folder / "program"), {"user": 65534, "group": 65534, "extra_groups": ()}
        shutil.copy(PROGRAM, copy)
        self.folder.chmod(0o755)
        try:
            # cap_net_bind_service=ep, as setcap writes it.
            os.setxattr(copy, "security.capability", struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0))
            for words in ((STRATA, "--version"), (copy,)):
                subprocess.run(words, stdout=subprocess.DEVNULL, check=True, **other)
        except OSError as error:
            self.skipTest(f"takes root and a file that all can read: {error}")
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            for words, status in ((("compare", "--allocators", library("forwarding_malloc")), 2),
                                  (("record", "-o", f"{folder}/trace"), 2), (("run", "--library", LIKE_STRATA), 0)):
                done = strata(*words, "--", copy, **other)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn("has file capabilities, so the dynamic linker ignores preloaded libraries", done.stderr)
        done = strata("compare", "--allocators", library("forwarding_malloc"), "--runs", "1", "--", copy)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_result_file_that_cannot_be_written_before_anything_is_measured(self):
        marker = self.folder / "ran"
        for option in ("--json", "--csv"):
            path = self.folder / "missing" / "results"
            sentence = self.refused_compare("--allocators", "system", option, str(path),
                                            command=("touch", str(marker)))
            self.assertIn(f"{option} cannot write '{path}'", sentence)
        self.assertFalse(marker.exists())
        self.assertIn("cannot both be standard output",
                      self.refused_compare("--allocators", "system", "--json", "-", "--csv", "-"))

    def test_a_profile_that_cannot_be_written_before_the_program_runs(self):
        marker = self.folder / "ran"
        missing = self.folder / "missing" / "%p.pb"
        for path, reason in ((missing, "No such file or directory"), (self.folder, "Is a directory")):
            for more in ((), ("--leaks",)):
                sentence = self.refused("run", "--library", LIKE_STRATA, "--profile", str(path), *more, "--", "touch",
                                        str(marker))
                self.assertRegex(sentence, rf"--profile cannot write '{self.folder}.*': {reason}; give a path")
        for path, reason in (("", " names no file; give a path"),
                             ("-", " -: standard output is the command's; give a path")):
            self.assertIn("--profile" + reason,
                          self.refused("run", "--library", LIKE_STRATA, "--profile", path, "--", "touch", str(marker)))
        self.assertFalse(marker.exists())

    def test_a_temporary_folder_that_is_none_is_named(self):
        bench = ("bench", "churn", "--allocators", "system", "--runs", "1", "--ops", "1000", "--settle", "0")
        for words in (bench, ("compare", "--allocators", "system", "--runs", "1", "--", PROGRAM)):
            for folder in ("/nonexistent", "/etc/passwd"):
                done = strata(*words, env={**os.environ, "TMPDIR": folder})
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(f"TMPDIR is '{folder}', which is no folder; set it to one that you may write, or unset it",
                              done.stderr)
            self.assertEqual(strata(*words, env={**os.environ, "TMPDIR": ""}).returncode, 0)

    def test_a_full_disk_of_temporary_files_is_named(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to mount a small disk")
        disk, results = self.folder / "disk", self.folder / "results.json"
        disk.mkdir()
        compare = ("compare", "--allocators", "system", "--runs", "1", "--json", str(results), "--", "echo", "hello")
        self.assertEqual(strata(*compare).returncode, 0)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "disk", str(disk)],
                          capture_output=True).returncode != 0:
            self.skipTest("no disk can be mounted here")
        self.addCleanup(subprocess.run, ["umount", str(disk)])
        with self.assertRaises(OSError), (disk / "ballast").open("wb", buffering=0) as ballast:
            while ballast.write(b"x" * 4096):
                pass
        commands = [compare, ("bench", "churn", "--allocators", "system", "--runs", "1")]
        if shutil.which("gnuplot"):
            commands.append(("report", str(results), "-o", str(self.folder / "report.html")))
        for words in commands:
            done = strata(*words, env={**os.environ, "TMPDIR": str(disk)})
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, rf"cannot write a temporary file like {disk}/strata-output-\w+; make room there, or "
                                          "set TMPDIR to another folder: No space left on device")

    def test_a_file_in_a_working_folder_that_is_gone_is_named(self):
        gone = self.folder / "gone"
        for words in (("compare", "--allocators", "system", "--json", "here", "--", PROGRAM),
                      ("record", "-o", "here", "--", PROGRAM)):
            gone.mkdir()
            done = subprocess.run(["sh", "-c", f'cd {gone}; rmdir {gone}; exec "$0" "$@"', STRATA, *words],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, r"(--json|-o) cannot write 'here': No such file or directory; give a path")

    def test_command_lines_that_are_none(self):
        self.assertIn("name a command", self.refused())
        self.assertIn("unknown command 'frobnicate'", self.refused("frobnicate"))
        self.assertIn("unknown option '--frobnicate'", self.refused("compare", "--frobnicate", "--", "ls"))
        self.assertIn("unknown command 'help'; the commands are: run,", self.refused("help", "options"))
        self.assertIn("unknown option '--runs'; options come after a command: run,",
                      self.refused("--runs", "1", "compare", "--allocators", "system", "--", PROGRAM))
        self.assertIn("put it after --", self.refused("compare"))
        self.assertIn("put it after --", self.refused("run", "--"))
        self.assertIn("as in: strata run -- ls", self.refused("run", "ls"))
        self.assertIn("--runs needs a value", self.refused("compare", "--runs", "--", "ls"))
        self.assertIn("--runs needs a value", self.refused("compare", "--runs=", "--", "ls"))
        self.assertIn("give name=value", self.refused("run", "--set", "checks", "--", "ls"))
        self.assertIn("--json needs a value; '--quiet' is an option",
                      self.refused("compare", "--json", "--quiet", "--", "ls"))
        self.assertIn("'x' is not understood; strata options takes options only", self.refused("options", "x"))

    def test_help_and_version_are_no_errors(self):
        for arguments in (["--help"], ["run", "--help"], ["compare", "--help"]):
            done = strata(*arguments)
            self.assertEqual(done.returncode, 0)
            self.assertIn("Examples:", done.stdout)
            self.assertEqual(done.stderr, "")
            self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)
        self.assertRegex(strata("--version").stdout, r"^strata \d+\.\d+\.\d+\n$")


class Results(InFolder):
    def test_json_on_standard_output_is_alone_there(self):
        done = strata("compare", "--allocators", "system", "--runs", "1", "--json", "-", "--", PROGRAM)
        self.assertEqual(schema.check(json.loads(done.stdout), SCHEMA), [])
        self.assertIn("allocator", done.stderr)

    def test_csv_has_the_same_rows(self):
        path = self.folder / "results.csv"
        done, rows = self.compare("--runs", "2", "--csv", str(path),
                                  allocators=f"system,{library('aborts_at_malloc')}")
        lines = list(csv.DictReader(io.StringIO(path.read_text())))
        self.assertEqual([line["contender"] for line in lines], list(rows))
        self.assertEqual(float(lines[0]["elapsed_s.median"]), rows["system"]["metrics"]["elapsed_s"]["median"])
        self.assertEqual(lines[0]["elapsed_s.n"], "2")
        self.assertEqual(lines[1]["ok"], "false")
        self.assertEqual(lines[1]["reason"], rows["aborts_at_malloc"]["reason"])
        self.assertEqual(lines[1]["elapsed_s.n"], "")

    def test_a_measurement_has_a_name_if_one_is_given(self):
        _, rows = self.compare("--runs", "1", "--label", "before", allocators="system")
        self.assertEqual(rows["system"]["label"], "before")

    def test_a_group_stands_for_all_that_the_machine_has(self):
        _, named = self.compare("--runs", "1", allocators="general")
        self.assertEqual(list(named)[:2], ["system", "strata"])
        self.assertEqual(sorted(named), sorted(set(named)))

    def test_a_full_disk_is_an_error_after_the_table(self):
        done = strata("compare", "--allocators", "system", "--runs", "1", "--json", "/dev/full", "--",
                      PROGRAM)
        self.assertEqual(done.returncode, 1)
        self.assertIn("could not write '/dev/full'", done.stderr)
        self.assertRegex(done.stdout, r"(?m)^system +\d")

    def test_the_example_of_bench_is_valid(self):
        example = example_results()
        self.assertEqual(schema.check(example, SCHEMA), [])
        row = next(row for row in example["rows"] if row["ok"])
        row["latencies"]["alloc"]["buckets"].append([1, 2])
        row["timeline"][0]["phase"] = "later"
        row["failed_allocations"] = -1
        self.assertEqual(len(schema.check(example, SCHEMA)), 3)

    def test_the_validator_finds_what_is_wrong(self):
        done = strata("compare", "--allocators", "system", "--runs", "1", "--json", "-", "--", PROGRAM)
        good = json.loads(done.stdout)

        def broken(change):
            copy = json.loads(json.dumps(good))
            change(copy)
            return schema.check(copy, SCHEMA)

        self.assertEqual(broken(lambda r: None), [])
        self.assertTrue(broken(lambda r: r.update(schema="strata-results/0")))
        self.assertTrue(broken(lambda r: r["rows"][0].pop("params")))
        self.assertTrue(broken(lambda r: r["rows"][0].update(ok=False)), "a failure without a reason")
        self.assertTrue(broken(lambda r: r["rows"][0]["metrics"]["elapsed_s"].update(n=0)))
        self.assertTrue(broken(lambda r: r["machine"].update(cores="2")))
        self.assertTrue(broken(lambda r: r["rows"][0].update(surprise=1)))


def ends(pid):
    """Whether the process ends before long: it was killed, but the kernel and its parent take their time."""
    for _ in range(3000):
        try:
            state = pathlib.Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


class Interruption(InFolder):
    def signalled(self, number, script):
        """Starts a comparison, sends the signal once there are two words in the file `runs`."""
        path = self.folder / "results.json"
        runs = self.folder / "runs"
        runs.touch()
        process = subprocess.Popen(
            [STRATA, "compare", "--allocators", f"system,{library('forwarding_malloc')}", "--warmup", "0",
             "--runs", "3", "--json", str(path), "--", "sh", "-c", script.format(runs=runs)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(10000):
            if len(runs.read_text().split()) >= 2:
                break
            time.sleep(0.01)
        process.send_signal(number)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, -number)
        return out, err, path.read_text() if path.exists() else ""

    def test_what_was_measured_is_kept_and_the_signal_is_passed_on(self):
        script = 'echo $$ >> {runs}; test $(wc -l < {runs}) -lt 2 || sleep 1000'
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
            (self.folder / "runs").unlink(missing_ok=True)
            out, err, text = self.signalled(number, script)
            results = json.loads(text)
            self.assertEqual(schema.check(results, SCHEMA), [])
            rows = {row["contender"]: row for row in results["rows"]}
            self.assertTrue(rows["system"]["ok"])
            self.assertEqual(rows["system"]["metrics"]["elapsed_s"]["n"], 1)
            self.assertFalse(rows["forwarding_malloc"]["ok"])
            self.assertEqual(rows["forwarding_malloc"]["reason"], "interrupted before its first run ended")
            self.assertRegex(out, r"(?m)^system +\d")
            self.assertIn("interrupted; the results cover the runs that were completed", err)
            sleeper = (self.folder / "runs").read_text().split()[-1]
            self.assertTrue(ends(sleeper), "the command was left running")

    def test_before_a_run_has_ended_nothing_is_written_or_replaced(self):
        path, started = self.folder / "results.json", self.folder / "started"
        for earlier in (None, "an earlier measurement"):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                with self.subTest(earlier=earlier, signal=number):
                    started.unlink(missing_ok=True)
                    if earlier is not None:
                        path.write_text(earlier)
                    process = subprocess.Popen(
                        [STRATA, "compare", "--allocators", "system", "--json", str(path), "--csv",
                         str(self.folder / "results.csv"), "--", "sh", "-c", f"touch {started}; sleep 1000"],
                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    while not started.exists():
                        time.sleep(0.01)
                    process.send_signal(number)
                    _, err = process.communicate(timeout=300)
                    self.assertEqual(process.returncode, -number)
                    self.assertIn("interrupted before a run was completed; no file was written or replaced\n", err)
                    self.assertNotIn("replaces", err)
                    self.assertEqual(path.read_text() if path.exists() else None, earlier)
                    self.assertFalse((self.folder / "results.csv").exists())

    def test_the_command_and_its_children_end_with_a_killed_strata(self):
        self.signalled(signal.SIGKILL, "sleep 1000 & echo $! $$ >> {runs}; wait")
        for process in (self.folder / "runs").read_text().split():
            self.assertTrue(ends(process), "the command was left running")


class WithStrata(InFolder):
    def test_run_puts_strata_under_the_command(self):
        done = strata("run", "--", "grep", "-c", "libstrata", "/proc/self/maps")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(int(done.stdout), 0)

    def test_compare_has_system_and_strata_and_the_peers_of_this_machine(self):
        path = self.folder / "results.json"
        done = strata("compare", "--runs", "1", "--json", str(path), "--", PROGRAM)
        self.assertEqual(done.returncode, 0, done.stderr)
        names = [row["contender"] for row in json.loads(path.read_text())["rows"]]
        self.assertEqual(names[:2], ["system", "strata"])

    def options(self, **environment):
        done = strata("options", env={**PLAIN, **environment})
        self.assertEqual(done.stderr, "")
        return done.returncode, {line.split("STRATA_")[1].split()[0]: line for line in done.stdout.splitlines()[1:]}

    def test_options_lists_every_option_of_the_documentation(self):
        status, lines = self.options()
        self.assertEqual(status, 0)
        told = re.findall(r"^\| `STRATA_(\w+)` \| (?:`(.*?)`|none)", (ROOT / "docs" / "options.md").read_text(), re.M)
        self.assertEqual(list(lines), [name for name, _ in told])
        for name, default in told:
            self.assertRegex(lines[name], f"^ +STRATA_{name} .*{re.escape(default)}")

    def test_a_setting_that_the_library_does_not_know_is_refused_before_anything_runs(self):
        marker = pathlib.Path(tempfile.gettempdir()) / f"strata-ran-{os.getpid()}"
        for command, option in (("run", "--set"), ("compare", "--set"), ("compare", "--vary")):
            for setting, sentence in (("cheks=full", "STRATA_CHEKS is not an option"),
                                      ("checks=ful", "STRATA_CHECKS is 'ful'; give ")):
                done = strata(command, "--set", "random=off", option, setting, "--", "touch", str(marker))
                self.assertEqual(done.returncode, 2)
                self.assertIn(f"strata {command}: {option}: {sentence}", done.stderr)
        self.assertFalse(marker.exists())

    def test_options_marks_what_is_set_and_what_is_not_understood(self):
        status, lines = self.options(STRATA_SOFT_LIMIT="80%", STRATA_CACHE_BYTES="2048k", STRATA_STATS_FILE="/tmp/x")
        self.assertEqual(status, 0)
        self.assertRegex(lines["SOFT_LIMIT"], r"^\* +STRATA_SOFT_LIMIT +80% +0 ")
        self.assertRegex(lines["CACHE_BYTES"], r"^\* +STRATA_CACHE_BYTES +2m +32m ")
        self.assertRegex(lines["STATS_FILE"], r"^\* +STRATA_STATS_FILE +/tmp/x ")
        status, lines = self.options(STRATA_CHECKS='ba"na\\na\n', STRATA_CHEKS="full")
        self.assertEqual(status, 1)
        self.assertRegex(lines["CHECKS"], r"^! +STRATA_CHECKS +auto +auto")
        self.assertRegex(lines["CHEKS"], "is not an option")

    def test_options_stand_in_one_line_each_whatever_bytes_they_hold(self):
        done = strata("options", env={**PLAIN, b"STRATA_PROFILE": b"a\xffb", b"STRATA_\x1b[2J": b"\n"})
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertRegex(done.stdout, r"STRATA_PROFILE +a\ufffdb")
        self.assertIn("STRATA_?[2J is not an option\n", done.stdout)

    def test_options_as_json_have_names_values_and_states(self):
        done = strata("options", "--json", env={**PLAIN, "STRATA_CHECKS": "full", "STRATA_LEAKS": "yes"})
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        options = {option["name"]: option for option in json.loads(done.stdout)}
        self.assertEqual((options["STRATA_CHECKS"]["value"], options["STRATA_CHECKS"]["state"]), ("full", "set"))
        self.assertEqual((options["STRATA_LEAKS"]["value"], options["STRATA_LEAKS"]["state"]), ("0", "invalid"))
        self.assertEqual(options["STRATA_STATS"]["state"], "default")

    def test_options_as_json_tell_names_that_are_not_understood(self):
        done = strata("options", "--json", env={**PLAIN, b"STRATA_CHEKS": b"full", b"STRATA_\xff": b"\xff"})
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        options = {option["name"]: option for option in json.loads(done.stdout)}
        self.assertEqual({key: text for key, text in options["STRATA_CHEKS"].items() if text},
                         {"name": "STRATA_CHEKS", "state": "unknown", "text": "full"})
        self.assertEqual({"text"}, options["STRATA_CHEKS"].keys() - options["STRATA_STATS"].keys(), "readers find their keys")
        self.assertEqual(options["STRATA_\ufffd"]["state"], "unknown")
        self.assertIn("! STRATA_CHEKS is not an option\n", strata("options", env={**PLAIN, b"STRATA_CHEKS": b""}).stdout)

    def test_other_names_of_the_project_are_no_mistakes(self):
        environment = {**PLAIN, "STRATA_BOOTSTRAP": "off", "STRATA_FUZZ_CORPUS": "", "STRATA_SEED": "1", "STRATA_RECORD": "",
                       "STRATA_RECORD_STACKS": "0"}
        done = strata("run", "--", "true", env=environment)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        done = strata("options", env=environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("not an option", done.stdout)

    def test_what_the_environment_sets_is_told_and_in_the_results(self):
        measured = (("compare", "--runs", "1", "--warmup", "0", "--allocators", "system,strata", "--", PROGRAM),
                    ("bench", "churn", "--runs", "1", "--ops", "1000", "--settle", "0", "--allocators", "system,strata"))
        for command, *words in measured:
            with self.subTest(command=command):
                path = self.folder / "results.json"
                done = strata(command, "--json", str(path), *words, env={**os.environ, "STRATA_CHECKS": "full"})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("strata runs with STRATA_CHECKS=full, from the environment\n", done.stdout)
                results = json.loads(path.read_text())
                self.assertEqual(schema.check(results, SCHEMA), [])
                self.assertEqual([row["params"].get("STRATA_CHECKS") for row in results["rows"]], ["full"] * 2)
                done = strata(command, *words, env={**os.environ, "STRATA_CHECKS": "ful"})
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("the environment: STRATA_CHECKS is 'ful'; give ", done.stderr)
                self.assertNotIn("from the environment", strata(command, *words).stdout)
                words[words.index("system,strata")] = "system"
                done = strata(command, *words, env={**os.environ, "STRATA_CHECKS": "ful"})
                self.assertNotIn("from the environment", done.stdout)

    def test_options_takes_no_command_and_says_so_in_its_usage(self):
        self.assertEqual(strata("options", "--", "ls").returncode, 2)
        self.assertIn("Usage: strata options [options]\n", strata("options", "--help").stdout)


if __name__ == "__main__":
    unittest.main()
