#!/usr/bin/env python3
"""`strata record` with programs of others and above allocators of others: they do what they do without us, and
what was recorded is complete and can be replayed. The environment is that of end_to_end_test.py."""
import os
import pathlib
import shutil
import subprocess
import time
import unittest

from end_to_end_test import FORWARDING, STRATA, strata
from record_test import RECORDED, Recorded, Trace

PEERS = ("jemalloc", "mimalloc", "tcmalloc", "tbbmalloc")
LIMIT_S = 120


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"no {program}; scripts/bootstrap installs it")


class RecordPrograms(Recorded):
    def check_traces(self, least, replayed=True):
        """All are complete, but those of processes that became another program; the largest can be replayed."""
        paths = [path for path in [self.path, *self.siblings()] if path.exists()]
        traces = {path: Trace(path) for path in paths}
        processes = [trace.properties["pid"] for trace in traces.values()]
        for trace in traces.values():
            self.assertIn(trace.ending.get("reason"), ("exit",) if processes.count(trace.properties["pid"]) == 1
                          else ("exit", None), trace.properties)
            self.assertEqual((trace.dropped, trace.count("lost")), (0, 0), trace.properties)
        largest = max(paths, key=lambda path: len(traces[path].events))
        self.assertGreater(len(traces[largest].events), least)
        if replayed:
            done = strata("replay", str(largest), "--allocators", "system", "--runs", "1", "--touch", "all")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return traces[largest]

    def check(self, *command, least, **arguments):
        plain = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **arguments)
        done = self.record(*command, **arguments)
        self.assertEqual((done.returncode, done.stdout), (plain.returncode, plain.stdout), done.stderr)
        return self.check_traces(least)

    def test_python(self):
        program = ("import json, threading; print(len(json.dumps(list(range(20000)))));"
                   " t = threading.Thread(target=lambda: print(sum(range(1000)))); t.start(); t.join()")
        trace = self.check("/usr/bin/python3", "-c", program, least=20000, env={**os.environ, "PYTHONMALLOC": "malloc"})
        self.assertEqual(trace.unknown(), 0)

    def test_perl(self):
        self.check("perl", "-e", "my %h; $h{$_ % 100} .= 'x' x ($_ % 7) for 1..20000;"
                   " print join(',', map { length $h{$_} } sort keys %h), `echo child`", least=1000)

    @needs("sqlite3")
    def test_sqlite3(self):
        self.check("sqlite3", ":memory:", "create table t(a, b); with recursive n(i) as (select 1 union all "
                   "select i + 1 from n where i < 5000) insert into t select i, hex(i * i) from n; "
                   "select count(*), sum(length(b)) from t;", least=1000)

    @needs("git")
    def test_git(self):
        environment = {**os.environ, "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1"}
        source = self.folder / "source"
        source.mkdir()
        (source / "file").write_text("text\n" * 1000)
        git = ["git", "-C", str(source), "-c", "user.name=a", "-c", "user.email=a@b"]
        self.check(*git, "init", "-q", least=100, env=environment)
        self.check(*git, "add", "-A", least=100, env=environment)
        self.check(*git, "commit", "-q", "--allow-empty", "-m", "text", least=100, env=environment)
        self.check(*git, "log", "--stat", "--format=%s", least=100, env=environment)

    @needs("g++")
    def test_the_compiler_and_all_that_it_starts(self):
        source = self.folder / "source.cpp"
        source.write_text("#include <string>\n#include <vector>\n"
                          "std::vector<std::string> f() { return {\"a\", \"b\"}; }\n")
        trace = self.check("g++", "-O1", "-c", str(source), "-o", str(self.folder / "object.o"), least=50000)
        self.assertIn("cc1plus", trace.properties["command"])
        self.assertGreaterEqual(len(self.siblings()), 2)
        self.assertRegex(self.errors, r"traces; most in '.*/trace\.\d+' \(.*cc1plus .*\)\n")

    @needs("redis-server")
    def test_a_server_and_its_threads(self):
        self.path = self.folder / "trace"
        socket = self.folder / "socket"
        server = subprocess.Popen([STRATA, "record", "-o", str(self.path), "--", "redis-server", "--port", "0",
                                   "--unixsocket", str(socket), "--save", "", "--dir", str(self.folder)],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until = time.monotonic() + LIMIT_S
            while not socket.exists() and server.poll() is None and time.monotonic() < until:
                time.sleep(0.05)
            client = ["redis-cli", "-s", str(socket)]
            lines = "".join(f"set key:{i} {'v' * (i % 300 + 1)}\nlpush list {i}\n" for i in range(3000))
            done = subprocess.run(client, input=lines, capture_output=True, text=True, timeout=LIMIT_S)
            self.assertEqual(done.stdout.split().count("OK"), 3000, done.stderr)
            subprocess.run([*client, "shutdown", "nosave"], capture_output=True, timeout=LIMIT_S)
            self.assertEqual(server.wait(timeout=LIMIT_S), 0)
        finally:
            if server.poll() is None:
                server.kill()
                server.wait()
        self.check_traces(10000)

    def test_sixty_four_threads(self):
        self.check(RECORDED, "threads", "64", "1000", least=64 * 1000)

    def test_a_full_disk_leaves_what_can_be_replayed(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to mount a small disk")
        disk = self.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "disk", str(disk)],
                          capture_output=True).returncode != 0:
            self.skipTest("no disk can be mounted here")
        self.addCleanup(subprocess.run, ["umount", str(disk)])
        done = strata("record", "-o", str(disk / "trace"), "--", RECORDED, "churn", "2000000")
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
        self.assertIn("No space left on device; the program goes on", done.stderr)
        self.assertGreater(len(Trace(disk / "trace").events), 10_000)
        replayed = strata("replay", str(disk / "trace"), "--allocators", "system", "--runs", "1")
        self.assertEqual(replayed.returncode, 0, replayed.stderr)


class RecordAbove(Recorded):
    """The same calls, whoever answers them."""

    @classmethod
    def setUpClass(cls):
        cls.allocators = {"libc.so": "system", "forwarding": f"mine={FORWARDING}"}
        if (pathlib.Path(STRATA).parent.parent / "lib" / "libstrata.so").exists():
            cls.allocators["strata"] = "strata"
        for peer in PEERS:
            if strata("record", "-o", os.devnull, "--allocator", peer, "--", "true").returncode == 0:
                cls.allocators[peer] = peer

    def check_each(self, check, *command, without=()):
        for name, allocator in self.allocators.items():
            if name not in without:
                with self.subTest(allocator=name):
                    trace = self.trace_of(*command, options=("--allocator", allocator))
                    self.assertIn(name, trace.properties["allocator"])
                    check(trace)

    def test_every_form_of_every_call_is_told(self):
        self.check_each(self.check_calls, RECORDED, "calls")

    def test_an_operator_that_throws_leaves_no_call_half_way(self):
        def check(trace):
            self.assertEqual([event["operation"] for event in trace.of_size(1015)], ["malloc"])
        # mimalloc, which is built as C, ends the program there.
        self.check_each(check, RECORDED, "fails-to-make", without=("mimalloc",))

    def test_what_an_allocator_brings_beside_malloc_is_told(self):
        def check(trace):
            for size in (8101, 8201):
                self.assert_begins_and_ends(trace, size, "malloc", "free")
            self.assertEqual(trace.unknown(), 0)
        self.check_each(check, RECORDED, "texts")

    def test_threads_that_free_each_others_objects(self):
        def check(trace):
            self.assertEqual((trace.count("lost"), trace.dropped, len(trace.threads)), (0, 0, 17))
        self.check_each(check, RECORDED, "threads", "16", "1000")

    def test_a_child_of_fork(self):
        def check(_):
            self.assertEqual(len(Trace(self.siblings()[0]).of_size(5002)), 1)
        self.check_each(check, RECORDED, "fork")


if __name__ == "__main__":
    unittest.main()
