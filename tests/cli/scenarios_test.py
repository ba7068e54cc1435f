#!/usr/bin/env python3
"""Every scenario in a tiny size: under every contender of the process, on a malloc that gives memory
away twice, on one that refuses, and twice with the same seed.

ctest gives CLI_TEST_CELL (the measured program), CLI_TEST_FIXTURES (libraries of others), and
CLI_TEST_SANITIZER where the program is instrumented.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

CELL = os.environ["CLI_TEST_CELL"]
FAULTY = pathlib.Path(os.environ["CLI_TEST_FIXTURES"]) / "libfaulty_malloc.so"
INSTRUMENTED = bool(os.environ.get("CLI_TEST_SANITIZER"))

# What makes a scenario tiny; what is not here is so by --ops=1.
TINY = {
    "blocks": ["--count=1000"],
    "churn": ["--window=50"],
    "containers": ["--elements=50"],
    "idle": ["--burst=1", "--watch=0.01"],
    "large": ["--largest=1000000"],
    "phases": ["--live=1"],
    "queue": ["--ticks=500"],
    "realloc": ["--largest=20000"],
    "service": ["--live=1", "--days=2", "--night=0"],
}
WITHOUT_THREADS = {"idle", "phases", "queue"}
ONE_THREAD = {"block-allocator", "object-pool", "page-arena", "boost-pool", "size-classes",
              "coalescing-heap", "pmr-pool"}

DESCRIPTION = json.loads(subprocess.run([CELL, "--describe"], capture_output=True, text=True,
                                        check=True, timeout=300).stdout)
# Not replay: it needs a plan of a recorded program, which tests/advice gives it.
SCENARIOS = sorted(scenario["name"] for scenario in DESCRIPTION["scenarios"] if scenario["name"] != "replay")


class Report:
    """What a cell said."""

    def __init__(self, done):
        self.done = done
        self.metrics = {}
        self.latencies = {}
        self.verdict = None  # ("broken" | "wrong" | "unfit", sentence)
        self.served = None
        self.is_whole = False
        for line in done.stdout.splitlines():
            word, _, rest = line.partition(" ")
            if word == "metric":
                name, value = rest.split()
                self.metrics[name] = float(value)
            elif word == "latency":
                name, count, *_ = rest.split()
                self.latencies[name] = int(count)
            elif word == "served":
                self.served = tuple(int(count) for count in rest.split())
            elif word in ("broken", "wrong", "unfit"):
                self.verdict = (word, rest)
            elif word == "end":
                self.is_whole = True


def run(scenario, *options, contender="", fault=None, ops=1, seed=1):
    environment = dict(os.environ)
    if fault is not None:
        environment.update(LD_PRELOAD=str(FAULTY), FAULTY_MALLOC=fault)
    words = [CELL, scenario, f"--ops={ops}", f"--seed={seed}", "--sample-rate=0.5",
             *TINY.get(scenario, []), *options]
    if contender:
        words.append(f"--contender={contender}")
    return Report(subprocess.run(words, capture_output=True, text=True, timeout=300, env=environment))


class Scenarios(unittest.TestCase):
    def assert_good(self, report, where):
        self.assertEqual((report.done.returncode, report.verdict, report.is_whole), (0, None, True),
                         f"{where}: {report.done.stdout[-300:]}{report.done.stderr[-300:]}")
        self.assertEqual(report.served[1], 0, where)

    def contenders(self, scenario):
        return ["", *(c["name"] for c in DESCRIPTION["contenders"])]

    def test_every_scenario_serves_every_contender_or_says_why_not(self):
        served_by = {}
        for scenario in SCENARIOS:
            for contender in self.contenders(scenario):
                report = run(scenario, contender=contender)
                if report.verdict and report.verdict[0] == "unfit" and contender:
                    self.assertEqual(report.done.returncode, 0)
                    continue
                self.assert_good(report, f"{scenario} on {contender or 'malloc'}")
                served_by.setdefault(contender, set()).add(scenario)
        for contender in self.contenders(""):
            self.assertIn(contender, served_by, "fits no scenario at all")
        self.assertEqual(served_by[""], set(SCENARIOS))
        self.assertIn("blocks", served_by["page-arena"])
        self.assertIn("queue", served_by["bitmap-pool"])

    def test_every_scenario_serves_several_threads(self):
        for scenario in SCENARIOS:
            if scenario in WITHOUT_THREADS:
                continue
            for contender in ("", "reclaiming-heaps", "bitmap-pool"):
                report = run(scenario, "--threads=3", contender=contender)
                if report.verdict and report.verdict[0] == "unfit" and contender:
                    continue
                self.assert_good(report, f"{scenario} on {contender or 'malloc'}")

    def test_allocators_for_one_thread_are_not_given_several(self):
        for contender in ONE_THREAD:
            report = run("churn", "--threads=2", contender=contender)
            self.assertEqual(report.verdict and report.verdict[0], "unfit", contender)

    def test_a_scenario_tells_time_and_latency(self):
        for scenario in SCENARIOS:
            report = run(scenario)
            if scenario == "queue":
                self.assertIn("wall_s", report.metrics)
            else:
                self.assertGreater(report.metrics["ns_per_op"], 0, scenario)
            if scenario != "idle":
                self.assertGreater(sum(report.latencies.values()), 0, scenario)


@unittest.skipIf(INSTRUMENTED, "a sanitizer's malloc cannot be replaced")
class FaultyAllocators(unittest.TestCase):
    # So that two living blocks may be the same: more than one at a time, of 48 bytes or more.
    OPTIONS = {
        "churn": [["--mode=window"], ["--mode=batch"], ["--mode=lifetime"]],
        "scratch": [["--size=64", "--threads=2", "--writes=1000000"]],
        "queue": [["--ticks=20000"], ["--ticks=2000", "--single-thread=yes"]],
    }
    # Producers drop what consumers have no time for: on a busy machine most of it. Enough is sent
    # all the same to meet the fault.
    OPS = {"queue": 40_000}

    def test_memory_given_away_twice_is_found_by_every_scenario(self):
        for scenario in SCENARIOS:
            for options in self.OPTIONS.get(scenario, [[]]):
                # Races decide when two owners meet, not whether: three attempts.
                reports = [run(scenario, *options, fault="overlaps", seed=s,
                               ops=self.OPS.get(scenario, 2000))
                           for s in (1, 2, 3)]
                for report in reports:
                    is_caught = report.verdict and report.verdict[0] == "broken"
                    # Containers may lose their way in their own links before a value is looked at.
                    has_crashed = scenario == "containers" and report.done.returncode < 0
                    if is_caught or has_crashed:
                        break
                else:
                    self.fail(f"{scenario} {options}: {reports[0].done.stdout[-300:]}"
                              f"{reports[0].done.stderr[-300:]}")

    def test_refused_requests_are_counted_and_the_load_goes_on(self):
        for scenario in SCENARIOS:
            if scenario in ("startup", "containers"):
                continue
            options = {"scratch": ["--size=64"], "queue": ["--ticks=20000"]}.get(scenario, [])
            report = run(scenario, *options, fault="refuses", ops=self.OPS.get(scenario, 2000))
            self.assertEqual((report.done.returncode, report.verdict, report.is_whole),
                             (0, None, True), f"{scenario}: {report.done.stderr[-300:]}")
            self.assertGreater(report.served[1], 0, scenario)

    def test_whichever_request_is_refused_it_is_none_of_the_harness(self):
        for ops in range(500, 600):  # so that every request after the load is a hundredth once
            report = run("queue", "--single-thread=yes", "--ticks=600", fault="refuses", ops=ops)
            self.assertTrue(report.is_whole, f"{ops}: {report.done.stderr[-300:]}")

    def test_containers_that_are_refused_memory_end_with_a_sentence(self):
        report = run("containers", fault="refuses", ops=2000)
        self.assertEqual(report.done.returncode, 1)
        self.assertIn("strata-cell: out of memory: ", report.done.stderr)
        self.assertFalse(report.is_whole)

    def test_the_same_seed_asks_for_the_same_and_another_for_something_else(self):
        fixed = {"blocks", "queue", "scale", "scratch", "startup"}
        options = {"churn": ["--size-dist=mixed"], "handover": ["--size-dist=pareto"]}
        for scenario in SCENARIOS:
            # What threads do depends on each other in the queue only.
            mine = options.get(scenario, []) + (["--single-thread=yes"] if scenario == "queue" else [])

            def digest(seed):
                report = run(scenario, *mine, fault="digest", seed=seed)
                self.assertTrue(report.is_whole, scenario)
                return report.done.stderr.strip(), report.served

            self.assertIn("digest", digest(1)[0])
            self.assertEqual(digest(1), digest(1), scenario)
            if scenario not in fixed:
                self.assertNotEqual(digest(1), digest(2), scenario)


class Processes(unittest.TestCase):
    OPTIONS = ("--workers=processes", "--batch=50")

    def test_each_does_its_part_and_all_are_counted(self):
        for count in (1, 3):
            report = run("scale", *self.OPTIONS, f"--threads={count}", ops=120_000)
            self.assertEqual((report.done.returncode, report.verdict, report.is_whole), (0, None, True),
                             report.done.stdout + report.done.stderr)
            self.assertGreaterEqual(report.metrics["ops"], 120_000)
            self.assertGreater(report.served[0], report.metrics["ops"])  # the first batches, too
            self.assertEqual(report.served[1], 0)
            cores = min(count, len(os.sched_getaffinity(0)))
            self.assertGreaterEqual(report.metrics["core_ns_per_op"] * 1.0001,
                                    cores * 1e9 / report.metrics["ops_per_s"])

    def test_the_seconds_of_each_run(self):
        m = run("scale", *self.OPTIONS, "--threads=2", "--seconds=0.2", ops=0).metrics
        self.assertGreater(m["ops"], 0)
        self.assertLess(m["ops"] * m["core_ns_per_op"], 60e9)

    def test_each_has_a_contender_of_its_own_for_one_thread(self):
        report = run("scale", *self.OPTIONS, "--threads=2", contender="block-allocator", ops=1000)
        self.assertTrue(report.is_whole and report.verdict is None, report.done.stdout)
        for count in (1, 8):
            m = run("scale", "--workers=processes", "--batch=20000", f"--threads={count}",
                    contender="bitmap-pool").metrics
            self.assertLess(m["first_faults"], count * 1500)

    @unittest.skipIf(INSTRUMENTED, "a sanitizer's malloc cannot be replaced")
    def test_what_one_of_them_finds_is_the_verdict(self):
        report = run("scale", *self.OPTIONS, "--threads=2", fault="overlaps", ops=100_000)
        self.assertEqual((report.done.returncode, report.verdict and report.verdict[0]), (0, "broken"))
        refused = run("scale", *self.OPTIONS, "--threads=2", fault="refuses", ops=100_000)
        self.assertTrue(refused.is_whole, refused.done.stderr)
        self.assertGreater(refused.served[1], 0)

    def begin(self):
        """A load without an end, and the numbers of its processes once all are there."""
        words = [CELL, "scale", *self.OPTIONS, "--threads=3", "--seconds=100", "--sample-rate=0"]
        cell = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(cell.kill)
        children = pathlib.Path(f"/proc/{cell.pid}/task/{cell.pid}/children")
        deadline = time.monotonic() + 60
        while len(children.read_text().split()) < 3:
            self.assertIsNone(cell.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)
        return cell, [int(child) for child in children.read_text().split()]

    def test_the_end_of_one_is_the_end_of_all(self):
        for ignored in (False, True):  # whoever ignores its children, as some shells do for a command
            with self.subTest(ignored=ignored):
                handler = signal.signal(signal.SIGCHLD, signal.SIG_IGN if ignored else signal.SIG_DFL)
                cell, copies = self.begin()
                signal.signal(signal.SIGCHLD, handler)
                os.kill(copies[1], signal.SIGKILL)
                self.assertEqual(cell.wait(timeout=60), -signal.SIGKILL)
                self.assert_gone(copies)

    def test_none_outlives_the_cell(self):
        cell, copies = self.begin()
        cell.kill()
        cell.wait(timeout=60)
        self.assert_gone(copies)

    def assert_gone(self, processes):
        deadline = time.monotonic() + 60
        for process in processes:
            while is_running(process):
                self.assertLess(time.monotonic(), deadline, "it lives on")
                time.sleep(0.01)


def is_running(process):
    """Whether it is there, and no zombie that someone else has to bury."""
    try:
        stat = pathlib.Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


class Queue(unittest.TestCase):
    def check(self, report, made):
        self.assertTrue(report.is_whole, report.done.stdout + report.done.stderr)
        self.assertIsNone(report.verdict)
        m = report.metrics
        self.assertEqual(m["sent"] + m["dropped"], made)
        self.assertLessEqual(m["received"], m["sent"])
        self.assertEqual(m["left"] + m["received"], m["sent"])
        self.assertEqual(report.served, (m["sent"], 0))
        self.assertEqual(m["samples"],
                         report.latencies.get("enqueue", 0) + report.latencies.get("dequeue", 0))
        return m

    def test_the_sums_come_out_whoever_sends_and_receives(self):
        for contender in ("", "bitmap-pool", "boost-lockfree", "thread-heaps"):
            for producers, consumers in ((1, 1), (3, 1), (1, 3), (4, 4)):
                report = run("queue", f"--producers={producers}", f"--consumers={consumers}",
                             "--ticks=1000", ops=10**9, contender=contender)
                self.check(report, producers * 1000)

    def test_a_single_thread_runs_full_and_empty(self):
        m = self.check(run("queue", "--single-thread=yes", "--ticks=20000", "--capacity=4",
                           ops=10**9, contender="bitmap-pool"), 20000)
        self.assertGreater(m["dropped"], 0)
        self.assertGreater(m["received"], 10000)

    def test_a_queue_that_is_not_emptied_fast_enough_drops(self):
        m = self.check(run("queue", "--producers=4", "--consumers=1", "--capacity=1", "--ticks=2000",
                           ops=10**9), 8000)
        self.assertGreater(m["dropped"], 0)
        self.assertLessEqual(m["left"], 1)

    def test_ops_bound_the_ticks(self):
        self.check(run("queue", "--producers=2", "--ticks=1000000", ops=300), 300)

    def test_every_message_is_timed_if_all_are_to_be(self):
        m = self.check(run("queue", "--single-thread=yes", "--sample-rate=1", ops=500), 500)
        self.assertEqual(m["samples"], m["sent"] + m["received"])


class Options(unittest.TestCase):
    def test_sizes_come_from_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write("bytes,weight\n24,3\n4000,1\n")
            file.flush()
            for scenario in ("churn", "slots", "handover"):
                report = run(scenario, f"--size-dist={file.name}")
                self.assertTrue(report.is_whole, report.done.stderr)
                self.assertIsNone(report.verdict)

    def test_sizes_that_make_no_sense_are_refused(self):
        for scenario in ("larson", "large"):
            report = run(scenario, "--smallest=3000", "--largest=2000")
            self.assertEqual(report.done.returncode, 1)
            self.assertIn("--smallest 3000 is above --largest 2000", report.done.stderr)

    def test_every_way_of_growing_and_of_freeing(self):
        cases = [("realloc", f"--growth={g}") for g in ("half", "double", "step")]
        cases += [("blocks", f"--order={o}") for o in ("fifo", "lifo", "scattered")]
        cases += [("scale", f"--order={o}") for o in ("fifo", "lifo", "random")]
        cases += [("scratch", f"--mode={m}") for m in ("active", "passive")]
        cases += [("churn", f"--mode={m}") for m in ("immediate", "window", "batch", "lifetime")]
        for scenario, option in cases:
            report = run(scenario, option)
            self.assertTrue(report.is_whole and report.verdict is None,
                            f"{scenario} {option}: {report.done.stdout}{report.done.stderr}")

    def test_batches_of_every_size_end_in_time(self):
        for batch, size in ((1, 16), (30_000, 16), (100, 32768), (2000, 32768)):
            report = run("scale", f"--batch={batch}", f"--size={size}", "--threads=2")
            self.assertTrue(report.is_whole and report.verdict is None, report.done.stdout)
            # Some 20,000 operations of each thread are timed as one, 32 MiB at most, one batch at least.
            timed = max(batch, min(20_000, (32 << 20) // size) // batch * batch)
            self.assertEqual(report.metrics["ops"] % timed, 0, f"{batch} x {size}: {report.metrics}")

    def test_the_time_of_a_core_counts_waiting_too(self):
        for scenario in ("scale", "slots"):
            m = run(scenario, "--threads=3", ops=200_000).metrics
            self.assertGreaterEqual(m["core_ns_per_op"], m["cpu_ns_per_op"])
            cores = min(3, len(os.sched_getaffinity(0)))
            self.assertGreaterEqual(m["core_ns_per_op"] * 1.0001, cores * 1e9 / m["ops_per_s"])

    def test_what_a_burst_leaves_behind_is_told(self):
        m = run("idle").metrics
        self.assertGreater(m["burst_rss_bytes"], 500_000)
        self.assertTrue(0 <= m["back_share"] <= 1)
        self.assertEqual("half_back_s" in m, m["left_rss_bytes"] <= m["burst_rss_bytes"] / 2)

    def test_memory_over_what_lives_is_told(self):
        m = run("phases", "--live=4").metrics
        self.assertGreater(m["rss_per_live"], 0.9)
        self.assertGreaterEqual(m["peak_live_bytes"], 4 << 20)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
