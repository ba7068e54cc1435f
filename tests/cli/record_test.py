#!/usr/bin/env python3
"""`strata record` and `strata trace` from end to end: known calls, and programs of others. The environment
is that of end_to_end_test.py."""
import csv
import io
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

from end_to_end_test import FIXTURES, FORWARDING, InFolder, STRATA, strata

RECORDED = str(FIXTURES / "recorded")
STATIC = str(FIXTURES / "empty_program")


class Trace:
    """A trace as its CSV tells it."""

    def __init__(self, path):
        done = strata("trace", "csv", str(path))
        assert done.returncode == 0, done.stderr
        self.properties, self.ending, self.stacks, self.threads, self.modules = {}, {}, {}, [], []
        self.dropped = 0
        lines = io.StringIO(done.stdout)
        names = next(lines).strip().split(",")
        self.events = []
        for words in csv.reader(lines):
            if words[0] == "#process":
                self.properties[words[1]] = words[2]
            elif words[0] == "#end":
                self.ending[words[1]] = words[2]
            elif words[0] == "#stack":
                self.stacks[words[1]] = (words[2], int(words[3], 16), len(self.modules))
            elif words[0] == "#thread":
                self.threads.append(words[3])
            elif words[0] == "#module":
                self.modules.append((int(words[1], 16), int(words[2], 16), int(words[3], 16), words[5]))
            elif words[0] == "#dropped":
                self.dropped += int(words[1])
            else:
                self.events.append(dict(zip(names, words)))
        self.ends = {event["ended"]: event for event in self.events if event["ended"]}

    def of_size(self, size):
        return [event for event in self.events if event["size_bytes"] == str(size)]

    def count(self, operation):
        return sum(event["operation"] == operation for event in self.events)

    def unknown(self):
        return sum(event["ended"] == "unknown" for event in self.events)

    def frames(self, event):
        """(module, offset) of the event's stack, the innermost first."""
        found, node = [], event["stack"]
        while node and node != "0":
            node, address, modules = self.stacks[node]
            holders = [module for module in self.modules[:modules] if module[0] < address <= module[1]]
            found.append((pathlib.Path(holders[-1][3]).name, address - holders[-1][0] + holders[-1][2])
                         if holders else ("", address))
        return found


class Recorded(InFolder):
    def record(self, *command, options=(), **arguments):
        self.path = self.folder / "trace"
        done = strata("record", "-o", str(self.path), *options, "--", *command, **arguments)
        self.errors = done.stderr
        return done

    def trace_of(self, *command, options=()):
        done = self.record(*command, options=options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return Trace(self.path)

    def siblings(self):
        return sorted(self.folder.glob("trace.*"))

    def assert_begins_and_ends(self, trace, size, begin, end, alignment=""):
        found = trace.of_size(size)
        self.assertEqual([event["operation"] for event in found], [begin], size)
        self.assertEqual(found[0]["alignment"], str(alignment), size)
        self.assertEqual(trace.ends[found[0]["object"]]["operation"], end, size)

    def check_calls(self, trace):
        for size, begin, end in ((1001, "malloc", "free"), (1002, "calloc", "free"), (1010, "new", "delete"),
                                 (1011, "new", "delete"), (1012, "new", "delete"), (1014, "new", "delete"),
                                 (1003, "realloc", "realloc"),
                                 (100003, "realloc", "realloc"), (3000, "realloc", "free"),
                                 (5 << 30, "malloc", "free"), ((1 << 32) - 1, "malloc", "free"), (2001, "malloc", "free"),
                                 (2002, "malloc", "free"), (2003, "malloc", "free"), (1020, "malloc", "free")):
            self.assert_begins_and_ends(trace, size, begin, end)
        for size, alignment in ((1004, 64), (1024, 128), (1006, 32), (1007, os.sysconf("SC_PAGE_SIZE"))):
            self.assert_begins_and_ends(trace, size, "aligned", "free", alignment)
        self.assert_begins_and_ends(trace, 1013, "new", "delete", 512)
        self.assert_begins_and_ends(trace, 512, "new", "delete", 256)
        failed = [event["operation"] for event in trace.of_size((1 << 62) - 1) if not event["object"]]
        self.assertEqual(failed[:3], ["realloc", "malloc", "new"])
        self.assertEqual([event["operation"] for event in trace.of_size((1 << 64) - 2)], ["calloc"])
        self.assert_begins_and_ends(trace, 1021, "malloc", "free")
        self.assertEqual(trace.of_size(1022), [], "a mistake in the call, and no call")
        self.assertIn(trace.ends[trace.of_size(1023)[0]["object"]]["operation"], ("free", "realloc"))
        passed = trace.of_size(1020)[0]
        self.assertNotEqual(passed["thread"], trace.ends[passed["object"]]["thread"])
        self.assertEqual((trace.unknown(), trace.count("lost")), (0, 0))
        self.assertEqual(trace.ending["reason"], "exit")


class Record(Recorded):
    def test_every_form_of_every_call_is_told(self):
        self.check_calls(self.trace_of(RECORDED, "calls"))

    def test_it_works_above_another_allocator_that_has_names_of_its_own(self):
        trace = self.trace_of(RECORDED, "calls", options=("--allocator", f"mine={FORWARDING}"))
        self.assertEqual(trace.properties["allocator"], FORWARDING)
        self.assertEqual([event["operation"] for event in trace.of_size(1001)], ["malloc"])

    def test_stacks_lead_from_the_call_to_main(self):
        trace = self.trace_of(RECORDED, "calls")
        first, second = trace.of_size(3001)
        self.assertNotEqual(first["stack"], second["stack"])  # two calls in one function
        names = subprocess.run(
            ["addr2line", "-fC", "-e", RECORDED] +
            [hex(offset - 1) for module, offset in trace.frames(first) if module == "recorded"],
            capture_output=True, text=True).stdout.splitlines()[::2]
        self.assertEqual([name.split("::")[-1] for name in names[:4]],
                         ["inner_place()", "outer_place()", "calls()", "main"])
        one_frame = self.trace_of(RECORDED, "calls", options=("--stacks", "1"))
        self.assertEqual({len(one_frame.frames(event)) for event in one_frame.of_size(3001)}, {1})
        none = self.trace_of(RECORDED, "calls", options=("--stacks", "off"))
        self.assertEqual(none.stacks, {})

    def test_stacks_lead_to_files_when_main_has_ended_before_other_threads(self):
        trace = self.trace_of(RECORDED, "ends-before-others", options=("--on-signal", "USR2"))
        self.assertEqual(trace.frames(trace.of_size(3001)[0])[0][0], "recorded")

    def test_a_file_with_a_newline_in_its_path_is_found_again(self):
        folder = self.folder / "two\nlines"
        folder.mkdir()
        program = shutil.copy(RECORDED, folder)
        trace = self.trace_of(program, "calls")
        self.assertIn(program.replace("\n", r"\012"), [module[3] for module in trace.modules])
        part = self.folder / "part"
        self.assertEqual(strata("trace", "cut", str(self.path), "--for", "9", "-o", str(part)).returncode, 0)
        for path in (self.path, part):
            self.assertRegex(strata("explain", str(path), "--top", "0").stdout, r"inner_place\(?\)?  recorded\.cpp:")

    def test_a_library_is_named_that_was_unloaded_and_another_one_in_its_place(self):
        plugins = [str(FIXTURES / f"lib{name}.so") for name in ("recorded_plugin", "recorded_other_plugin")]
        trace = self.trace_of(RECORDED, "plugins", *plugins, *plugins)
        self.assertEqual((trace.unknown(), trace.count("lost"), trace.ending["reason"]), (0, 0, "exit"))
        for size, plugin in ((8001, plugins[0]), (8002, plugins[1])):
            for seen in (size, size + 10):
                self.assertEqual(len(trace.of_size(seen)), 2)
                for event in trace.of_size(seen):
                    self.assertEqual(trace.frames(event)[0][0], pathlib.Path(plugin).name, seen)
                    self.assertIn(event["object"], trace.ends)

    def test_threads_that_free_each_others_objects_are_told_in_an_order_that_can_be(self):
        trace = self.trace_of(RECORDED, "threads", "64", "3000", options=("--stacks", "4"))
        self.assertEqual((trace.unknown(), trace.count("lost"), trace.dropped), (0, 0, 0))
        self.assertEqual(len(trace.threads), 65)
        own = [event for event in trace.events if event["operation"] == "malloc" and event["thread"] != "0"]
        self.assertGreaterEqual(len(own), 64 * 3000)

    def test_an_address_that_threads_hand_to_each_other_has_one_object_at_a_time(self):
        # One arena without caches: what one thread frees another gets at once, and clocks are read early.
        shared = "GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1"
        trace = self.trace_of("/usr/bin/env", shared, RECORDED, "threads", "8", "20000", options=("--stacks", "off"))
        self.assertEqual((trace.unknown(), trace.count("lost"), trace.dropped), (0, 0, 0))

    def test_short_lived_threads_are_forgotten(self):
        trace = self.trace_of(RECORDED, "short-threads", "2000", options=("--stacks", "off"))
        self.assertEqual(len(trace.of_size(4001)), 2000)
        self.assertEqual(len({event["thread"] for event in trace.of_size(4001)}), 2000)
        self.assertEqual(trace.threads.count("short-lived"), 2000)

    def test_a_child_of_fork_writes_a_trace_of_its_own(self):
        trace = self.trace_of(RECORDED, "fork")
        self.assertEqual(len(self.siblings()), 1)
        child = Trace(self.siblings()[0])
        self.assertIn("in 2 traces; most in", self.errors)
        self.assertEqual(self.siblings()[0].name, f"trace.{child.properties['pid']}")
        self.assertEqual(child.properties["parent"], trace.properties["pid"])
        self.assertEqual((child.ending["reason"], child.unknown()), ("exit", 1))
        self.assertEqual([len(child.of_size(size)) for size in (5001, 5002, 5003)], [0, 1, 0])
        self.assertEqual([len(trace.of_size(size)) for size in (5001, 5002, 5003)], [1, 0, 1])

    def test_programs_that_it_starts_and_that_it_becomes_write_theirs(self):
        self.assertEqual(self.record("sh", "-c", f"{RECORDED} calls; exec {RECORDED} calls").returncode, 0)
        programs = [Trace(path).properties["command"] for path in self.siblings()]
        self.assertEqual(programs.count(f"{RECORDED} calls"), 2)

    def test_a_killed_program_leaves_what_it_did_up_to_a_second_before(self):
        done = self.record(RECORDED, "killed")
        self.assertEqual(done.returncode, -signal.SIGKILL)
        trace = Trace(self.path)
        self.assertEqual(len(trace.of_size(6001)), 1)
        self.assertEqual(trace.ending, {})
        self.assertIn("was killed", strata("trace", "info", str(self.path)).stdout)

    def test_a_full_disk_ends_the_recording_and_not_the_program(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        done = self.record(RECORDED, "churn", "2000000", options=("--stacks", "off"), preexec_fn=limit)
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
        self.assertRegex(done.stderr, r"strata record: the trace '.*/trace' ends here, because it could not be written: "
                                      r"File too large; the program goes on\n")
        self.assertEqual(done.stderr.count("the program goes on"), 1)
        self.assertGreater(len(Trace(self.path).events), 10_000)
        self.assertIn("the disk was full", strata("trace", "info", str(self.path)).stdout)

    def test_a_device_that_is_full_is_named(self):
        done = strata("record", "-o", "/dev/full", "--", RECORDED, "churn", "1000")
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
        self.assertIn("'/dev/full' ends here, because it could not be written: No space left on device", done.stderr)

    def test_a_file_that_cannot_be_made_is_refused_before_the_program_runs(self):
        for path, reason in (("/nowhere/%p", "No such file or directory"), (self.folder, "Is a directory")):
            done = strata("record", "-o", str(path), "--", RECORDED, "churn", "1000")
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertRegex(done.stderr, rf"-o cannot write '.*': {reason}; give a path")

    def test_a_trace_named_by_its_process_is_named(self):
        done = strata("record", "-o", "%p.trace", "--", RECORDED, "churn", "1000", cwd=self.folder)
        trace, = self.folder.glob("*.trace")
        self.assertRegex(done.stderr, rf"^strata record: .* in '{trace.name}'\n$")

    def test_a_process_that_became_another_program_has_two_traces_named_by_it(self):
        done = strata("record", "-o", "%p.trace", "--", "sh", "-c", f"exec {RECORDED} churn 1000", cwd=self.folder)
        trace, = self.folder.glob("*.trace.2")
        self.assertRegex(done.stderr, rf"^strata record: .* in 2 traces; most in '{trace.name}' \(")

    def test_a_file_that_can_be_made_no_more_is_named_and_the_program_runs(self):
        folder = self.folder / "folder"
        folder.mkdir()
        done = strata("record", "-o", str(folder / "trace"), "--", "sh", "-c",
                      f"rm -r {folder}; {RECORDED} churn 1000")
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"))
        self.assertIn("cannot be created: No such file or directory; the program runs unrecorded", done.stderr)

    def test_only_traces_of_an_earlier_recording_of_the_file_make_way(self):
        self.assertEqual(self.record("sh", "-c", f"{RECORDED} fork; exec {RECORDED} fork").returncode, 0)
        self.assertGreaterEqual(len(self.siblings()), 3)
        own, other = self.siblings(), self.folder / "trace.1"
        self.assertEqual(strata("record", "-o", str(other), "--", "true").returncode, 0)
        (self.folder / "trace.2").touch()
        (self.folder / "trace.3").write_text("dear reader")
        kept = {path: path.read_bytes() for path in self.siblings() if path not in own}
        self.assertEqual(len(kept), 3)
        self.assertEqual(self.record("true").returncode, 0)
        self.assertEqual({path: path.read_bytes() for path in self.siblings()}, kept)
        self.assertRegex(self.errors, r"^strata record: \d.* in '[^']*/trace'\n$")

    def test_a_link_stays_and_the_trace_is_where_it_leads(self):
        (self.folder / "elsewhere").mkdir()
        target, link = self.folder / "elsewhere" / "target", self.folder / "trace"
        link.symlink_to(target)
        for _ in range(2):
            self.assertEqual(self.record(RECORDED, "fork").returncode, 0)
            self.assertTrue(link.is_symlink())
            Trace(target)
            self.assertEqual([path.name for path in self.folder.iterdir() if path.name.startswith("trace.")], [])
            self.assertEqual(len(list(target.parent.iterdir())), 2)

    def test_a_command_that_does_not_start_leaves_earlier_traces(self):
        self.record(RECORDED, "fork")
        before = {path: path.read_bytes() for path in self.folder.iterdir()}
        self.assertEqual(len(before), 2)
        script = self.folder / "script"
        script.write_text("#!/no/such/interpreter\n")
        script.chmod(0o755)
        self.assertEqual(self.record(str(script)).returncode, 126)
        script.unlink()
        self.assertEqual({path: path.read_bytes() for path in self.folder.iterdir()}, before)

    def test_a_signal_while_earlier_traces_make_way_leaves_none_aside(self):
        for _ in range(5):
            done = self.record("sh", "-c", "for i in $(seq 200); do (:); done", options=("--stacks", "off"))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreaterEqual(len(self.siblings()), 200)
            process = subprocess.Popen([STRATA, "record", "-o", str(self.path), "--", "true"], stderr=subprocess.DEVNULL)
            while process.poll() is None and not any(self.folder.glob("*.old")):
                pass
            process.terminate()
            process.wait(timeout=60)
            self.assertEqual(list(self.folder.glob("*.old")), [])

    def test_the_end_is_the_commands_own_where_standard_error_is_closed_or_full(self):
        for redirection in ("2>&-", "2>/dev/full", ">&- 2>&-"):
            done = subprocess.run(["sh", "-c", f'exec "$0" "$@" {redirection}', STRATA, "record", "-o",
                                   str(self.folder / "trace"), "--", "sh", "-c", "exit 3"])
            self.assertEqual(done.returncode, 3, redirection)
            Trace(self.folder / "trace")

    def test_a_part_can_be_recorded(self):
        trace = self.trace_of(RECORDED, "signalled", options=("--on-signal", "USR2"))
        self.assertEqual([len(trace.of_size(size)) for size in (7001, 7002, 7003)], [0, 1, 0])
        self.assertEqual(trace.ending["reason"], "signal")
        trace = self.trace_of(sys.executable, "-c", "import time; a = bytearray(70010); time.sleep(2);"
                              " b = bytearray(70020); del a; time.sleep(2); c = bytearray(70030)",
                              options=("--after", "1", "--for", "2"))
        sizes = [size for size in (70010, 70020, 70030) if trace.of_size(size + 1) or trace.of_size(size)]
        self.assertEqual(sizes, [70020])
        self.assertGreaterEqual(trace.unknown(), 1)
        self.assertEqual(trace.ending["reason"], "time")

    def test_the_signal_may_be_any_and_may_go_to_strata(self):
        script = ("import select, sys; print(flush=True)\n"
                  "while not select.select([sys.stdin], [], [], 0.01)[0]: bytearray(70010)")
        for number in (signal.SIGALRM, signal.SIGCHLD, signal.SIGTSTP, signal.SIGRTMIN):
            with self.subTest(signal=number):
                path = self.folder / f"{int(number)}.trace"
                process = subprocess.Popen([STRATA, "record", "-o", str(path), "--on-signal", str(int(number)), "--",
                                            sys.executable, "-c", script],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                process.stdout.readline()
                process.send_signal(number)
                time.sleep(2)
                _, err = process.communicate(timeout=300)
                self.assertEqual(process.returncode, 0, err)
                self.assertGreater(len(Trace(path).of_size(70011)), 0)

    def test_that_nothing_was_recorded_is_told_with_the_reason(self):
        for options, reason in (
                (("--after", "100"), "the command made no call after the 100 seconds of --after"),
                (("--on-signal", "USR2"), "the signal USR2 of --on-signal did not come, or no call after it, or the "
                                          "program handles it itself")):
            self.record("true", options=options)
            self.assertEqual(self.errors, f"strata record: nothing was recorded: {reason}\n")

    def test_a_disk_that_is_slower_makes_the_program_wait_or_drops_with_a_count(self):
        for options, drops, load in (((), False, "churn"), (("--drop",), True, "churn"), (("--drop",), True, "resize")):
            pipe = self.folder / "pipe"
            os.mkfifo(pipe)
            process = subprocess.Popen([STRATA, "record", "--stacks", "off", "-o", str(pipe), *options, "--",
                                        RECORDED, load, "3000000"], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True)
            with open(pipe, "rb") as reader:
                if drops:  # it comes to its end though nobody reads
                    self.assertEqual(process.stdout.readline(), "done\n")
                taken = reader.read()
            process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0)
            (self.folder / "taken").write_bytes(taken)
            pipe.unlink()
            info = strata("trace", "info", str(self.folder / "taken")).stdout
            self.assertEqual("calls are missing" in info, drops, info)

    def installed(self, folder):
        """The command with its helpers in a folder, whose libraries nobody may execute, as packages have them."""
        command = pathlib.Path(STRATA)
        for name in ("bin/strata", "libexec/strata-launch", "libexec/libstrata-record.so"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(command.parent.parent / name, folder / name)
        (folder / "libexec" / "libstrata-record.so").chmod(0o644)
        return str(folder / "bin" / "strata")

    def test_an_installed_recorder_need_not_be_executable(self):
        done = subprocess.run([self.installed(self.folder / "installed"), "record", "-o", self.folder / "trace", "--",
                               RECORDED, "calls"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_calls(Trace(self.folder / "trace"))

    def test_a_recorder_in_a_folder_with_a_space_is_refused(self):
        done = subprocess.run([self.installed(self.folder / "in stalled"), "record", "-o", self.folder / "trace", "--",
                               RECORDED, "calls"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("has a space or a colon in its path, which LD_PRELOAD cannot hold", done.stderr)

    def test_the_trace_is_told_as_it_was_named(self):
        done = strata("record", "-o", "named", "--", "true", cwd=self.folder)
        self.assertRegex(done.stderr, r"^strata record: \d.* in 'named'\n$")

    def test_the_end_is_the_commands_own(self):
        self.assertEqual(self.record("sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(self.record("sh", "-c", "kill -TERM $$").returncode, -signal.SIGTERM)

    def test_mistakes_are_named(self):
        cases = (((), "no command to run"), (("--stacks", "0", "--", "true"), "--stacks"),
                 (("--stacks", "x", "--", "true"), "'x'"), (("--stacks", "", "--", "true"), "--stacks is ''"),
                 (("--allocator", "", "--", "true"), "unknown allocator ''"), (("--on-signal", "NO", "--", "true"), "'NO' is not a signal"),
                 *((("--on-signal", signal, "--", "true"), f"no program can handle {signal};")
                   for signal in ("KILL", "SIGSTOP", "9", "19", "32", "33")),
                 *((("--on-signal", signal, "--", "true"), f"{signal} cannot be used: it is that of a fault;")
                   for signal in ("SEGV", "SIGBUS", "FPE", "4", "TRAP", "SYS")),
                 (("--after", "1", "--on-signal", "USR2", "--", "true"), "give one of them"),
                 (("--for", "0", "--", "true"), "--for"), (("--", STATIC), "cannot be recorded"),
                 (("--stacks", "999", "--", "true"), "from 1 to 128, or off"),
                 (("--allocator", "nobody", "--", "true"), "nobody"), (("-o", "", "--", "true"), "-o names no file"),
                 (("-o", "-", "--", "true"), "-o -: standard output is the command's"))
        for words, sentence in cases:
            done = strata("record", *words, cwd=self.folder)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(sentence, done.stderr)
        kept = self.folder / "letter"
        kept.write_text("dear reader")
        done = strata("record", "-o", str(kept), "--", "true")
        self.assertIn("exists and is not a trace", done.stderr)
        unreadable = "/proc/self/mem"
        done = strata("record", "-o", unreadable, "--", "true")
        self.assertIn("exists and is not a trace", done.stderr)
        self.assertEqual(kept.read_text(), "dear reader")


class TraceCommand(Recorded):
    def test_info_tells_what_there_is(self):
        self.record(RECORDED, "churn", "1000")
        done = strata("trace", "info", str(self.path))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"command     {RECORDED} churn 1000\n", done.stdout)
        self.assertRegex(done.stdout, r"events +\d+ in [\d.]+ s, by 1 thread; .* bytes each\n")
        self.assertRegex(done.stdout, r"recorder +\d+\.\d+ s of CPU time in its own thread\n")
        self.assertRegex(done.stdout, r"ended +with the program\n")

    def test_csv_leads_to_the_same_csv_again(self):
        self.record(RECORDED, "calls")
        text, again = self.folder / "calls.csv", self.folder / "again"
        self.assertEqual(strata("trace", "csv", str(self.path), "-o", str(text)).returncode, 0)
        self.assertEqual(strata("trace", "csv", str(text), "-o", str(again)).returncode, 0)
        first = [line for line in text.read_text().splitlines() if not line.startswith("#")]
        second = [line for line in strata("trace", "csv", str(again)).stdout.splitlines() if not line.startswith("#")]
        self.assertGreater(len(first), 40)
        self.assertEqual(first, second)

    def test_csv_may_come_through_a_pipe(self):
        made = self.folder / "made"
        text = "operation,time_ns,thread,object,size_bytes\nmalloc,0,main,1,100\n"
        done = subprocess.run([STRATA, "trace", "csv", "/dev/stdin", "-o", str(made)], input=text, capture_output=True,
                              text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([event["size_bytes"] for event in Trace(made).events], ["100"])

    def test_a_pipe_is_refused_that_would_have_to_be_read_twice(self):
        self.record(RECORDED, "calls")
        for words in (("trace", "csv", "/dev/stdin"), ("replay", "/dev/stdin"), ("advise", "/dev/stdin")):
            done = subprocess.run([STRATA, *words], input=self.path.read_bytes(), capture_output=True, timeout=300)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(b"'/dev/stdin' is a pipe, which cannot be read twice; give a file", done.stderr)

    def test_csv_may_begin_with_a_byte_order_mark(self):
        text, made = self.folder / "marked.csv", self.folder / "made"
        text.write_text("\ufeffoperation,time_ns,thread,object,size_bytes\nmalloc,0,main,1,100\n", encoding="utf-8")
        done = strata("trace", "csv", str(text), "-o", str(made))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([event["size_bytes"] for event in Trace(made).events], ["100"])

    def test_a_column_of_csv_that_is_not_understood_is_named(self):
        text, made = self.folder / "made.csv", self.folder / "made"
        text.write_text("operation,object,size\nmalloc,1,100\n")
        done = strata("trace", "csv", str(text), "-o", str(made))
        self.assertEqual((done.returncode, done.stderr),
                         (0, f"strata: warning: '{text}' has a column 'size', which is ignored: a trace has none of "
                             "that name (docs/trace-format.md)\n"))

    def test_standard_output_that_cannot_be_written_is_named(self):
        self.record(RECORDED, "calls")
        with open("/dev/full", "wb") as full:
            done = subprocess.run([STRATA, "trace", "csv", str(self.path)], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("could not write to standard output: No space left on device", done.stderr)

    def test_a_part_is_a_trace(self):
        events = "".join(f"malloc,{i * 1000000},main,{i},{i + 1}\n" for i in range(100))
        text, whole, part = (self.folder / name for name in ("made.csv", "whole", "part"))
        text.write_text("operation,time_ns,thread,object,size_bytes\n" + events)
        self.assertEqual(strata("trace", "csv", str(text), "-o", str(whole)).returncode, 0)
        done = strata("trace", "cut", str(whole), "-o", str(part), "--after", "0.02", "--for", "0.03")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([event["size_bytes"] for event in Trace(part).events], [str(i) for i in range(21, 51)])
        done = strata("trace", "cut", str(whole), "-o", str(part), "--after", "9")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("has no events", done.stderr)
        self.assertEqual(len(Trace(part).events), 30, "the part from before is still there")

    def test_mistakes_are_named(self):
        foreign = self.folder / "foreign"
        foreign.write_bytes(b"\x89PNG\r\n and so on")
        cases = ((("trace",), "info, cut or csv"), (("trace", "frob", "x"), "unknown action 'frob'"),
                 (("trace", "info"), "name one trace"), (("trace", "info", str(foreign)), "is not a trace"),
                 (("trace", "info", "/no/file"), "'/no/file' cannot be read: No such file"),
                 (("trace", "cut", str(foreign), "--for", "1"), "name the new trace"),
                 (("trace", "cut", str(foreign), "-o", "x"), "name the part"),
                 (("trace", "info", str(foreign), "--for", "1"), "are for 'cut'"),
                 (("trace", "csv", "/dev/null", "-o", "x"), "'/dev/null' is empty; the first line names the columns"),
                 (("trace", "csv", "/", "-o", "x"), "could not read '/': Is a directory"))
        for words, sentence in cases:
            done = strata(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(sentence, done.stderr)

    def test_what_is_interrupted_leaves_nothing(self):
        self.record(RECORDED, "churn", "1000000", options=("--stacks", "off"))
        for words in ("csv",), ("cut", "--after", "0"):
            for sent in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
                folder = self.folder / "-".join((*words[:1], sent.name))
                folder.mkdir()
                for _ in range(20):
                    (folder / "out").unlink(missing_ok=True)
                    process = subprocess.Popen([STRATA, "trace", *words, str(self.path), "-o", str(folder / "out")])
                    while process.poll() is None and not self.bytes_in(folder):
                        time.sleep(0.0005)
                    process.send_signal(sent)
                    status = process.wait(timeout=300)
                    if status != 0:  # else it had ended before the signal came
                        break
                self.assertEqual(status, -sent, words)
                self.assertEqual(os.listdir(folder), [], words)

    @staticmethod
    def bytes_in(folder):
        try:
            return sum(entry.stat().st_size for entry in folder.iterdir())
        except FileNotFoundError:
            return 0

    def test_what_is_read_is_not_replaced(self):
        self.record(RECORDED, "calls")
        read = self.path.read_bytes()
        text = self.folder / "calls.csv"
        strata("trace", "csv", str(self.path), "-o", str(text))
        replay = ("--runs", "1", "--allocators", "system")
        for words in (("trace", "csv", self.path, "-o", self.path), ("trace", "csv", text, "-o", text),
                      ("trace", "cut", self.path, "--after", "0", "-o", self.path),
                      ("explain", self.path, "-o", self.path), ("replay", self.path, *replay, "--json", self.path),
                      ("bench", "churn", self.path, "--seconds", "0.01", *replay, "--csv", self.path)):
            done = strata(*map(str, words))
            self.assertEqual(done.returncode, 2, words)
            self.assertRegex(done.stderr, r"'\S+' is what is read; give another file\n")
        self.assertEqual(self.path.read_bytes(), read)

    def test_a_damaged_trace_is_refused_with_the_place(self):
        self.record(RECORDED, "calls")
        damaged = bytearray(self.path.read_bytes())
        damaged[200] ^= 1
        self.path.write_bytes(damaged)
        done = strata("trace", "info", str(self.path))
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"damaged in the block at byte \d+: the checksum of its contents does not match\n")


if __name__ == "__main__":
    unittest.main()
