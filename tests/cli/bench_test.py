#!/usr/bin/env python3
"""`strata bench` from end to end: the matrix, contenders that fail in every way, results, refusals.

ctest gives CLI_TEST_BIN (the command) and CLI_TEST_FIXTURES (libraries that lie once a load asks for
blocks of 72 bytes).
"""
import contextlib
import csv
import functools
import io
import json
import math
import os
import pty
import re
import resource
import signal
import subprocess
import time
import unittest

import end_to_end_test
import schema
from end_to_end_test import FIXTURES, INSTRUMENTED, ROOT, SCHEMA, STRATA, library
from example_results import example_results

QUICK = ("--runs", "2", "--ops", "40000", "--warmup", "1", "--settle", "0.02")
MARKED = ("--size", "72")

strata = functools.partial(end_to_end_test.strata, timeout=3000)


class InFolder(end_to_end_test.InFolder):
    def bench(self, *arguments, allocators="system", scenario="churn"):
        """Runs bench, validates what it wrote, and returns (completed process, rows)."""
        path = self.folder / "results.json"
        done = strata("bench", scenario, "--allocators", allocators, *QUICK, "--json", str(path), *arguments)
        self.assertTrue(path.exists(), done.stderr)
        results = json.loads(path.read_text())
        self.assertEqual(schema.check(results, SCHEMA), [])
        return done, results["rows"]


class Bench(InFolder):
    def test_list_names_scenarios_and_contenders_and_their_options(self):
        done = strata("bench", "list")
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("churn", "system", "strata", "jemalloc", "bitmap-pool", "coalescing-heap"):
            self.assertIn(f"  {word} ", done.stdout)
            if word == "jemalloc":  # what cannot take part here says so
                known = strata("bench", "churn", "--allocators", word, "--ops", "1", "--runs", "1").returncode == 0
                self.assertEqual("apt install libjemalloc2" in done.stdout, not known)
        done = strata("bench", "list", "churn")
        self.assertIn("--mode immediate|window|batch|lifetime", done.stdout)
        self.assertIn("default 64, 1 to 67108864 bytes", done.stdout)

    def test_options_of_strata_are_set_and_varied(self):
        done, rows = self.bench("--set", "random=off", "--vary", "checks=basic,frees", allocators="system,strata")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row["contender"] for row in rows], ["system", "strata checks=basic", "strata checks=frees"])
        for row in rows:
            self.assertEqual(row["params"]["STRATA_RANDOM"], "off")
        self.assertIn("strata checks=frees", done.stdout)

    def test_every_option_is_a_dimension_of_the_matrix(self):
        done, rows = self.bench("--threads", "1,2", "--size", "16,64", "--mode=immediate", "--label", "mine",
                                allocators=f"system,{library('forwarding_malloc')}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(row["params"]["threads"], row["params"]["size"], row["contender"]) for row in rows],
                         [(threads, size, name) for threads in (1, 2) for size in (16, 64)
                          for name in ("system", "forwarding_malloc")])
        for row in rows:
            self.assertTrue(row["ok"])
            self.assertEqual(row["label"], "mine")
            self.assertEqual(row["params"]["mode"], "immediate")
            self.assertEqual(row["failed_allocations"], 0)
            self.assertEqual(row["metrics"]["ns_per_op"]["n"], 2)
            self.assertGreaterEqual(row["metrics"]["ops"]["min"], 40000)
        self.assertIn("churn threads=2 size=16", done.stdout)

    def test_a_row_says_what_every_run_gave_and_how_it_compares(self):
        _, rows = self.bench("--runs", "6", allocators=f"system,{library('forwarding_malloc')}")
        for row in rows:
            for name, summary in row["metrics"].items():
                values = row["values"][name]
                self.assertEqual(len(values), 6, name)
                self.assertEqual((min(values), max(values)), (summary["min"], summary["max"]), name)
        self.assertNotIn("ratios", rows[0])
        for name, ratio in rows[1]["ratios"].items():
            pairs = sorted(a / b for a, b in zip(rows[1]["values"][name], rows[0]["values"][name]))
            self.assertEqual(ratio["to"], "system")
            for part, expected in {"ratio": math.sqrt(pairs[2] * pairs[3]), "low": pairs[0], "high": pairs[-1]}.items():
                self.assertAlmostEqual(ratio[part], expected, delta=max(0.01, 0.01 * expected), msg=name)
        self.assertIn("ns_per_op", rows[1]["ratios"])
        self.assertNotIn("ops", rows[1]["ratios"])

    def test_latencies_are_a_histogram_and_what_it_says(self):
        _, (row,) = self.bench("--sample-rate", "0.5")
        self.assertEqual(sorted(row["latencies"]), ["alloc", "free"])
        for latency in row["latencies"].values():
            buckets = latency["buckets"]
            self.assertEqual(sum(count for _, _, count in buckets), latency["count"])
            for lower, upper, count in buckets:
                self.assertGreater(count, 0)
                self.assertLessEqual(upper - lower, max(0.001, 0.01 * lower) + 1e-9)
            for this, following in zip(buckets, buckets[1:]):
                self.assertLessEqual(this[1], following[0])
            for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)):
                passed = 0
                for lower, upper, count in buckets:
                    passed += count
                    if passed >= share * latency["count"]:
                        break
                value = latency["percentiles"][name]
                self.assertTrue(lower <= value <= upper, f"{name}: {lower} {value} {upper}")
            self.assertLessEqual(buckets[-1][0], latency["max"])
            self.assertGreater(latency["timer_cost_ns"], 0)

    def test_the_share_of_timed_operations_is_the_one_asked_for(self):
        _, (none,) = self.bench("--sample-rate", "0")
        self.assertNotIn("latencies", none)
        _, (every,) = self.bench("--sample-rate", "1")
        self.assertNotIn("ns_per_op", every["metrics"])
        _, (some,) = self.bench("--sample-rate", "0.25", "--ops", "1000000")
        share = some["latencies"]["alloc"]["count"] / sum(some["values"]["ops"])
        self.assertAlmostEqual(share, 0.25, delta=0.03)

    def test_the_process_is_watched_from_before_the_load_until_after_it(self):
        _, (row,) = self.bench("--size", "1000", "--window", "20000", "--seconds", "0.2", "--ops", "1000000000")
        timeline = row["timeline"]
        phases = [point["phase"] for point in timeline]
        self.assertEqual([phase for phase in sorted(set(phases), key=phases.index) if phase != "freeing"],
                         ["start", "load", "after"])
        times = [point["t_s"] for point in timeline]
        self.assertEqual(times, sorted(times))
        start, after = timeline[0], timeline[-1]
        loaded = [point for point in timeline if point["phase"] == "load"][-1]
        self.assertGreaterEqual(loaded["rss_bytes"] - start["rss_bytes"], 15_000_000)
        for point in (start, loaded, after):
            self.assertGreater(point["pss_bytes"], 0)
        self.assertGreaterEqual(loaded["minor_faults"], start["minor_faults"])
        self.assertGreaterEqual(row["metrics"]["peak_rss_bytes"]["max"], loaded["rss_bytes"] * 0.95)
        self.assertGreater(row["metrics"]["startup_s"]["median"], 0)
        self.assertGreater(row["metrics"]["first_ns_per_op"]["median"], 0)

    @unittest.skipIf(INSTRUMENTED, "a sanitizer's own memory is larger than the tables")
    def test_tables_of_the_harness_are_told_and_not_counted_as_memory(self):
        # 64 threads that hold a block each, with some 22 MiB of drawn operations and histograms.
        _, (row,) = self.bench("--threads", "64", "--ring", "1", scenario="ephemeral")
        median = {name: summary["median"] for name, summary in row["metrics"].items()}
        self.assertGreater(median["table_bytes"], 64 * (1 << 15) * 8)
        for name in ("start_rss_bytes", "loaded_rss_bytes", "loaded_pss_bytes", "peak_rss_bytes"):
            self.assertLess(median[name], median["table_bytes"], name)
            self.assertGreater(median[name], 0, name)
        for name in ("start_rss_bytes", "loaded_rss_bytes", "after_rss_bytes"):
            self.assertGreaterEqual(median["peak_rss_bytes"], median[name], name)

    def test_memory_is_seen_on_its_way_back(self):
        _, (row,) = self.bench("--burst", "16", "--watch", "0.5", scenario="idle")
        watched = [point["t_s"] for point in row["timeline"] if point["phase"] == "freeing"]
        self.assertGreater(len(watched), 5)

    def test_of_processes_the_first_is_watched_and_no_operation_is_timed(self):
        done, rows = self.bench("--workers", "threads,processes", "--threads", "2", "--batch", "100000",
                                scenario="scale")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row["params"]["workers"] for row in rows], ["threads", "processes"])
        threads, processes = (row["metrics"] for row in rows)
        self.assertIn("alloc", rows[0]["latencies"])
        self.assertFalse(rows[1].get("latencies"))
        size = 100_000 * 64
        self.assertGreater(processes["load_minor_faults"]["min"], size / 4096 * 0.9)
        self.assertGreater(processes["peak_rss_bytes"]["min"], size)
        self.assertLess(processes["peak_rss_bytes"]["min"], threads["peak_rss_bytes"]["min"])
        self.assertGreater(processes["core_ns_per_op"]["min"], 0)

    def test_the_same_seed_is_the_same_work(self):
        size = self.folder / "sizes.csv"
        size.write_text("bytes,weight\n24,1\n5000,1\n")
        _, (first,) = self.bench("--size-dist", str(size), "--seed", "7")
        self.assertEqual(first["params"]["size_dist"], str(size))
        self.assertEqual(first["params"]["seed"], 7)

    def test_contenders_of_the_process_take_part_where_they_fit(self):
        done, rows = self.bench("--threads", "1,2", allocators="system,bitmap-pool,coalescing-heap")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertEqual([(row["params"]["threads"], row["contender"]) for row in rows],
                         [(1, "system"), (1, "bitmap-pool"), (1, "coalescing-heap"), (2, "system"),
                          (2, "bitmap-pool")])
        self.assertIn("coalescing-heap is left out of churn threads=2: it serves one thread", done.stdout)
        self.assertNotIn("library", rows[1])
        self.assertTrue(rows[1]["version"])

    def test_csv_has_the_same_rows_and_the_columns_that_are_written_down(self):
        path = self.folder / "results.csv"
        _, rows = self.bench("--csv", str(path), *MARKED,
                             allocators=f"system,{library('lies_fails')},{library('forwarding_malloc')}")
        lines = list(csv.DictReader(io.StringIO(path.read_text())))
        self.assertEqual([line["contender"] for line in lines], [row["contender"] for row in rows])
        columns = ["scenario", "contender", "version", "library", "ok", "reason", "measured", "label", "broken",
                   "failed_allocations"]
        columns += [f"params.{name}" for name in rows[0]["params"]]
        columns += [f"{name}.{part}" for name in rows[0]["metrics"] for part in ("median", "min", "max", "n")]
        columns += [f"ratios.{name}.{part}" for name in rows[2]["ratios"]
                    for part in ("to", "ratio", "low", "high", "n")]
        columns += [f"latencies.{kind}.{part}" for kind in rows[0]["latencies"]
                    for part in ("timer_cost_ns", "count", "mean", "max", "p50", "p95", "p99", "p99.9", "p99.99")]
        self.assertEqual(list(lines[0]), columns)
        self.assertEqual(float(lines[2]["ns_per_op.median"]), rows[2]["metrics"]["ns_per_op"]["median"])
        self.assertEqual(float(lines[2]["ratios.ns_per_op.ratio"]), rows[2]["ratios"]["ns_per_op"]["ratio"])
        self.assertEqual(float(lines[0]["latencies.alloc.p99"]),
                         rows[0]["latencies"]["alloc"]["percentiles"]["p99"])
        self.assertEqual(lines[1]["ok"], "false")
        self.assertEqual(lines[1]["ns_per_op.median"], "")
        self.assertEqual(int(lines[1]["failed_allocations"]), rows[1]["failed_allocations"])

    def test_results_become_the_tables_of_a_document(self):
        document = self.folder / "document.md"
        document.write_text("before\n<!-- results -->\nold\n<!-- end of results -->\nbehind\n")
        example = self.folder / "example.json"
        example.write_text(json.dumps(example_results()))
        subprocess.run([str(ROOT / "tools" / "benchmark_tables"), str(example), str(document)], check=True, timeout=3000)
        text = document.read_text()
        self.assertTrue(text.startswith("before\n<!-- results -->\n"))
        self.assertTrue(text.endswith("<!-- end of results -->\nbehind\n"))
        self.assertNotIn("old", text)
        rows = example_results()["rows"]
        self.assertIn("over the 3 loads below", text)
        self.assertIn("\n| strata | 0.44 | 0.89 |", text)
        self.assertNotIn("\n| crasher |", text, "it served none")
        self.assertIn("\n| | system | strata | mimalloc | crasher | overlaps |\n", text)
        self.assertIn("\n| churn, threads 2 | 31.3 ns / 20.0 MiB | 0.44 / 0.88 | 0.48 / 1.19 | failed | broken |\n", text)
        for row in rows:
            reason = f"\n* churn, threads {row['params']['threads']}, {row['contender']}: {row.get('reason')}\n"
            self.assertEqual(reason in text, not row["ok"], row)

    def test_a_single_cell_has_every_percentile_and_a_matrix_a_few(self):
        words = ("--allocators", "system", "--runs", "1", "--ops", "3000", "--settle", "0")
        done = strata("bench", "queue", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        for kind in ("enqueue", "dequeue"):
            self.assertRegex(done.stdout, rf"(?m)^{kind} +mean +p50 +p95 +p99 +p99\.9 +p99\.99 +max +samples$")
        self.assertRegex(done.stdout, r"(?m)^allocator +wall +spread +sent +dropped +received +left$")
        done = strata("bench", "queue", *words, "--capacity", "4,64")
        self.assertRegex(done.stdout, r"(?m)^allocator .*received +left +enqueue p50 +p99 +dequeue p50 +p99$")

    def test_how_much_was_done_is_not_ranked(self):
        path = self.folder / "queue.json"
        done = strata("bench", "queue", "--allocators", f"system,{library('forwarding_malloc')}", "--runs", "3",
                      "--ticks", "500", "--settle", "0", "--json", str(path))
        row = json.loads(path.read_text())["rows"][1]
        self.assertEqual(set(row["ratios"]) & {"ops", "sent", "dropped", "received", "left", "samples"}, set())
        self.assertIn("wall_s", row["ratios"])
        self.assertRegex(done.stdout, r"(?m)^allocator +wall +spread +ratio +sent +dropped +received +left$")
        self.assertNotIn(" s,", done.stdout.splitlines()[0])

    def test_the_counts_of_a_queue_can_be_added(self):
        done = strata("bench", "queue", "--allocators", "system", "--runs", "1", "--ticks", "20000", "--settle", "0")
        self.assertIn("1 run each, a process for each\n", done.stdout)
        row = re.search(r"(?m)^system +\S+ \S+ +(\d+) +(\d+) +(\d+) +(\d+)$", done.stdout)
        self.assertIsNotNone(row, done.stdout)
        sent, dropped, received, left = map(int, row.groups())
        self.assertEqual((sent + dropped, received + left), (40000, sent))

    def test_memory_is_watched_until_allocators_have_given_it_back_unless_told_otherwise(self):
        words = ("churn", "--allocators", "system", "--runs", "1", "--ops", "3000", "--json", "-", "--quiet")
        row = json.loads(strata("bench", *words).stdout)["rows"][0]
        self.assertGreaterEqual(row["params"]["settle_s"], 3)
        self.assertGreaterEqual(row["timeline"][-1]["t_s"], 3)
        row = json.loads(strata("bench", *words, "--settle", "0.1").stdout)["rows"][0]
        self.assertEqual(row["params"]["settle_s"], 0.1)

    def test_results_say_when_they_were_measured_and_what_they_replace(self):
        path = self.folder / "x.csv"
        words = ("bench", "churn", "--allocators", "system", *QUICK, "--csv", str(path))
        self.assertNotIn("replaces", strata(*words).stderr)
        self.assertIn(f"'{path}' replaces the results that were in it", strata(*words).stderr)
        results = json.loads(strata(*words, "--quiet", "--json", "-").stdout)
        self.assertRegex(results["measured"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

    def test_results_are_kept_when_the_table_is_not_read(self):
        path = self.folder / "results.json"
        reading, writing = os.pipe()
        os.close(reading)
        try:
            subprocess.run([STRATA, "bench", "churn", "--allocators", "system", *QUICK, "--json", str(path)],
                           stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.DEVNULL, timeout=100,
                           preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL))
        finally:
            os.close(writing)
        self.assertEqual(len(json.loads(path.read_text())["rows"]), 1)

    def test_a_table_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([STRATA, "bench", "list"], stdin=subprocess.DEVNULL, stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=100)
        self.assertEqual(done.returncode, 1)
        self.assertIn("could not write to standard output: No space left on device", done.stderr)

    def test_a_narrow_terminal_gets_what_fits(self):
        text = self.in_terminal("bench", "churn", "--allocators", "system", *QUICK, "--size", "16,64", columns=40)
        lines = re.sub(r"\x1b\[[0-9;]*[mK]", "", text).splitlines()
        tables = [line.rpartition("\r")[2] for line in lines if line.startswith(("allocator", "system"))]
        self.assertEqual(len(tables), 4)
        for line in tables:
            self.assertLessEqual(len(line), 40, line)
        self.assertEqual(sum("more in a wider terminal" in line for line in lines), 2)
        progress = [part for part in text.split("\r") if "run 1 of 2" in part]
        self.assertTrue(progress)
        for part in progress:
            self.assertLess(len(re.sub(r"\x1b\[[0-9;]*[mK]", "", part)), 40)

    def test_the_catalogue_wraps_in_a_narrow_terminal(self):
        for columns in (50, 70):
            text = self.in_terminal("bench", "list", columns=columns)
            lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
            self.assertGreater(len(lines), 60)
            for line in lines:
                if not line.startswith("  for: "):  # a list of names
                    self.assertLessEqual(len(line), columns, line)

    def test_a_dumb_terminal_gets_no_escape_sequence(self):
        text = self.in_terminal("bench", "churn", "--allocators", "system", *QUICK, kind="dumb")
        self.assertIn("allocator", text)
        self.assertNotIn("\x1b", text)

    def test_standard_output_is_the_results_alone_and_a_pipe_hears_no_progress(self):
        done = strata("bench", "churn", "--allocators", "system", *QUICK, "--json", "-")
        self.assertEqual(schema.check(json.loads(done.stdout), SCHEMA), [])
        self.assertIn("allocator", done.stderr)
        self.assertNotIn("run 1 of 2", done.stderr)
        done = strata("bench", "churn", "--allocators", "system", *QUICK, "--json", "-", "--quiet")
        self.assertEqual(done.stderr, "")


@unittest.skipIf(INSTRUMENTED, "a sanitizer wants to be first in the measured process")
class BrokenContenders(InFolder):
    def test_a_load_that_does_not_fit_into_memory_says_so(self):
        room = 256 << 20
        done = subprocess.run([STRATA, "bench", "blocks", "--count", "100000000", "--allocators", "system", *QUICK],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (room, room)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("strata-cell: out of memory: there is no room for the load or its tables\n",
                      done.stdout + done.stderr)

    def rows_of(self, *arguments, names):
        allocators = ",".join(["system", *map(library, names), library("forwarding_malloc")])
        done, rows = self.bench(*MARKED, *arguments, allocators=allocators)
        self.assertEqual(done.returncode, 1)
        rows = {row["contender"]: row for row in rows}
        for healthy in ("system", "forwarding_malloc"):
            self.assertTrue(rows[healthy]["ok"], rows[healthy])
            self.assertEqual(rows[healthy]["metrics"]["ns_per_op"]["n"], 2)
            self.assertNotIn("broken", rows[healthy])
        self.assertIn("ns_per_op", rows["forwarding_malloc"]["ratios"])
        for name in names:
            self.assertNotIn("ratios", rows[name])
            self.assertFalse(rows[name]["ok"])
        return done, rows

    def test_memory_given_twice_is_found_and_the_contender_is_broken(self):
        for mode in ("window", "batch", "lifetime"):
            # Batches small enough that the C library keeps their memory: unmapped, it could not be looked at.
            done, rows = self.rows_of("--mode", mode, "--batch", "500", names=("lies_twice", "lies_inside"))
            for name in ("lies_twice", "lies_inside"):
                self.assertTrue(rows[name]["broken"], mode)
                self.assertEqual(rows[name]["reason"], "corrupted memory: a block of 72 bytes changed while it was in "
                                                       "use, in run 1 of 2")
            self.assertIn("broken: corrupted memory", done.stdout)

    def test_it_is_found_among_many_threads(self):
        _, rows = self.rows_of("--threads", "4", names=("lies_twice",))
        self.assertTrue(rows["lies_twice"]["broken"])

    def test_crashes_hangs_and_failures_are_rows_with_their_reason(self):
        done, rows = self.rows_of("--timeout", "3", names=("lies_crashes", "lies_hangs", "lies_fails"))
        self.assertEqual(rows["lies_crashes"]["reason"], "killed by SIGSEGV, in run 1 of 2")
        self.assertEqual(rows["lies_crashes"]["last_output"], "lying_malloc: I fall")
        self.assertEqual(rows["lies_hangs"]["reason"], "still running after 3 s, in run 1 of 2")
        self.assertRegex(rows["lies_fails"]["reason"], r"^\d+ of \d+ allocations failed, in run 1 of 2$")
        self.assertGreater(rows["lies_fails"]["failed_allocations"], 10)
        for name in ("lies_crashes", "lies_hangs", "lies_fails"):
            self.assertNotIn("broken", rows[name])
        self.assertIn("lying_malloc: I fall", done.stdout)

    def test_none_is_compared_with_a_first_contender_that_failed(self):
        _, rows = self.bench(*MARKED, allocators=f"{library('lies_fails')},system")
        self.assertFalse(rows[0]["ok"])
        self.assertTrue(rows[1]["ok"])
        self.assertNotIn("ratios", rows[1])

    def test_a_contender_that_fails_at_once_is_a_row_too(self):
        done, rows = self.bench(allocators=f"system,{library('crashes_at_load')},{library('aborts_at_malloc')}")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(rows[1]["reason"], "^killed by SIG(ILL|TRAP), in run 1 of 2$")
        self.assertEqual(rows[2]["reason"], "killed by SIGABRT, in run 1 of 2")


class BenchRefusals(InFolder):
    def refused(self, *arguments):
        done = strata("bench", *arguments)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        sentence, usage = done.stderr.splitlines()
        self.assertEqual(usage, "Usage: strata bench --help")
        self.assertTrue(sentence.startswith("strata bench: "))
        return sentence

    def test_numbers_that_are_none_or_out_of_range(self):
        huge = "99999999999999999999999"
        cases = {"--threads": ("-1", "0", "1x", huge, "1,,2", "1,0"), "--runs": ("-1", "0", "1x", huge, ""),
                 "--seconds": ("-1", "0", "1x", "nan", "inf", "1e400"), "--ops": ("-1", "0", "1x", huge),
                 "--warmup": ("-1", "1x", huge), "--seed": ("-1", "1x", huge),
                 "--sample-rate": ("-1", "1.01", "1x", "nan"), "--timeout": ("-1", "1x"), "--settle": ("-1", "1x"),
                 "--size": ("-1", "0", "1x", huge, "16,,64", "67108865"), "--window": ("0", "-1", "1x"),
                 "--mode": ("none", "window,none"), "--size-dist": ("/no/such/file.csv",)}
        for option, values in cases.items():
            for value in values:
                with self.subTest(option=option, value=value):
                    self.assertIn(option, self.refused("churn", option, value))
                    self.assertIn(option, self.refused("churn", f"{option}={value}"))

    def test_unknown_names(self):
        for name in ("chrun", "x" * 5000):
            self.assertIn(f"unknown scenario '{name}'; the scenarios are: ", self.refused(name))
        unknown = self.refused("churn", "--allocators", "sytem")
        self.assertIn("unknown allocator 'sytem'", unknown)
        self.assertIn("bitmap-pool", unknown)
        self.assertIn("thread-heaps", unknown)
        self.assertIn("--threads has no effect on queue", self.refused("queue", "--threads", "4"))
        self.assertIn("--seconds has no effect on queue", self.refused("queue", "--seconds", "4"))
        self.assertIn("--json needs a value; '--quiet' is an option", self.refused("churn", "--json", "--quiet"))
        self.assertIn("unknown option '--sise'", self.refused("churn", "--sise", "5"))
        self.assertIn("unknown option '-x'", self.refused("churn", "-x"))
        self.assertIn("name a scenario", self.refused())
        self.assertIn("twice", self.refused("churn", "churn"))
        self.assertIn("twice", self.refused("churn", "--allocators", "system,system"))
        self.assertIn("twice", self.refused("churn", "--allocators", "bitmap-pool,bitmap-pool"))
        self.assertIn("--window needs a value", self.refused("churn", "--window"))
        self.assertIn("strata compare", self.refused("churn", "--", "ls"))
        self.assertIn("unknown scenario", self.refused("list", "chrun"))
        for option in (("--json", "/no/such/file"), ("--quiet",), ("--threads", "2"), ("--size", "64")):
            self.assertIn(f"list takes no option {option[0]}", self.refused("list", "churn", *option))
        self.assertIn("cannot both be standard output", self.refused("churn", "--json", "-", "--csv", "-"))
        self.assertIn("cannot write", self.refused("churn", "--json", "/no/such/folder/x.json"))

    def test_a_trace_that_is_not_there(self):
        for name in ("absent.trace", "no/such/app"):
            self.assertIn(f"there is no file '{name}'; ", self.refused(name))
        self.assertIn("is a folder; give a scenario, or the file of a trace", self.refused(str(self.folder)))

    def test_allocators_none_of_which_can_do_what_a_cell_asks(self):
        path = self.folder / "results.json"
        path.write_text("earlier")
        sentence = self.refused("slots", "--allocators", "object-pool,page-arena", "--json", str(path))
        self.assertEqual(sentence, "strata bench: nothing was measured, as no allocator fits: object-pool is left out of "
                                   "slots: it has objects of 64 bytes; --allocators general fits all")
        self.assertEqual(path.read_text(), "earlier")
        self.assertEqual([entry.name for entry in self.folder.iterdir()], [path.name])

    def test_options_that_contradict_each_other_or_themselves(self):
        for scenario in ("larson", "large"):
            self.assertIn("--smallest 200000 is above --largest 100000",
                          self.refused(scenario, "--smallest", "200000", "--largest", "100000"))
        self.assertIn("--size has 64 twice", self.refused("churn", "--size", "64,16,064"))
        self.assertIn("--threads has 2 twice", self.refused("churn", "--threads", "2,2"))
        self.assertIn("--mode has window twice", self.refused("churn", "--mode", "window,window"))

    def test_files_of_sizes_that_are_none(self):
        path = self.folder / "sizes.csv"
        for scenario in ("churn", "slots", "handover"):
            for text, words in (("64,1\n64,x\n", "line 2"), ("0\n", "line 1"), ("", "no sizes"),
                                ("bytes,weight\n", "no sizes"), ("64,1e999\n", "line 1")):
                path.write_text(text)
                sentence = self.refused(scenario, "--size-dist", str(path))
                self.assertIn(words, sentence)
                self.assertIn("--size-dist", sentence)
        self.assertIn("no sizes", self.refused("churn", "--size-dist", str(self.folder)))

    def test_one_file_is_not_for_both(self):
        path = self.folder / "results"
        self.assertIn("--json and --csv cannot both be", self.refused("churn", "--json", str(path), "--csv", str(path)))
        self.assertFalse(path.exists())

    def test_help_tells_the_usage(self):
        done = strata("bench", "--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("Usage: strata bench SCENARIO|TRACE... [options]", done.stdout)


class BenchInterruption(InFolder):
    def test_what_was_measured_is_kept(self):
        path = self.folder / "results.json"
        terminal, its_end = pty.openpty()
        process = subprocess.Popen(
            [STRATA, "bench", "churn", "--allocators", "system", "--runs", "1", "--ops", "40000", "--settle", "0",
             "--size", ",".join(str(size) for size in range(8, 8000)), "--json", str(path)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=its_end, text=True,
            env={**os.environ, "TERM": "xterm"})
        os.close(its_end)
        told = b""
        while b"[3/" not in told:  # two runs are over
            told += os.read(terminal, 1024)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the end of a terminal
            while more := os.read(terminal, 1024):
                told += more
        os.close(terminal)
        out, _ = process.communicate(timeout=300)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertIn(b"interrupted", told)
        results = json.loads(path.read_text())
        self.assertEqual(schema.check(results, SCHEMA), [])
        good = [row for row in results["rows"] if row["ok"]]
        self.assertGreater(len(good), 0)
        self.assertLessEqual(len(results["rows"]) - len(good), 1)  # the one that was running
        self.assertIn("churn size=8", out)

    def test_nothing_temporary_is_left_while_the_library_is_asked(self):
        temporary, asked = self.folder / "temporary", self.folder / "asked"
        temporary.mkdir()
        process = subprocess.Popen(
            [STRATA, "bench", "churn", "--allocators", "strata", "--library",
             str(FIXTURES / "liblike_strata.so")],
            env={**os.environ, "TMPDIR": str(temporary), "STRATA_CHECKS": "full", "LIKE_STRATA_ASKED": str(asked)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not asked.exists():
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=300)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertEqual(list(temporary.iterdir()), [])

    def test_no_plan_of_a_trace_is_left(self):
        text, trace, temporary = (self.folder / name for name in ("calls.csv", "trace", "temporary"))
        temporary.mkdir()
        text.write_text("operation,time_ns,thread,object,size_bytes,ended\n" +
                        "".join(f"malloc,{i},main,{i},16,\nfree,{i},main,,,{i}\n" for i in range(1, 500000)))
        self.assertEqual(strata("trace", "csv", str(text), "-o", str(trace)).returncode, 0)
        for words in (("replay", trace), ("bench", "churn", trace, "--ops", "1000000"),
                      ("explain", trace, "-o", self.folder / "page.html", "--map", "system")):
            process = subprocess.Popen([STRATA, *words], env={**os.environ, "TMPDIR": str(temporary)},
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while process.poll() is None and not list(temporary.glob(f"strata-{words[0]}-*/*")):
                time.sleep(0.001)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=300)
            self.assertEqual(process.returncode, -signal.SIGINT, words)
            self.assertEqual(list(temporary.iterdir()), [], words)


if __name__ == "__main__":
    unittest.main()
