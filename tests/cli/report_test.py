#!/usr/bin/env python3
"""`strata report` from end to end: the files it writes, what it refuses, and its page in a browser.

The environment is that of end_to_end_test.py; the class ReportInBrowser has CLI_TEST_CHROMIUM, too.
"""
import html
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree
import zlib

import browser
import end_to_end_test
from end_to_end_test import STRATA, strata
from example_results import example_results

OK = 3  # contenders of the example that completed
FAILED = 2


def report(*arguments, **options):
    return strata("report", *map(str, arguments), **options)


def pixels(picture):
    """Width, height and the decompressed rows of a PNG file; checks each chunk's sum on the way."""
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", f"{picture} has no PNG signature"
    at, size, packed = 8, None, b""
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + length]
        assert zlib.crc32(kind + body) == struct.unpack_from(">I", data, at + 8 + length)[0], f"{picture} is damaged"
        if kind == b"IHDR":
            size = struct.unpack_from(">II", body)
        if kind == b"IDAT":
            packed += body
        at += 12 + length
    return *size, zlib.decompress(packed)


class InFolder(end_to_end_test.InFolder):
    def setUp(self):
        super().setUp()
        self.page = self.folder / "report.html"
        self.example = self.write("example.json", example_results())

    def write(self, name, text):
        path = self.folder / name
        if isinstance(text, bytes):
            path.write_bytes(text)
        else:
            path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path


class Report(InFolder):
    def test_the_page_is_one_file_that_names_no_other(self):
        done = report(self.example, "-o", self.page)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        page = self.page.read_text()
        self.assertNotRegex(page, r"(?i)https?:|url\(|@import|\bsrc=")
        self.assertEqual(set(re.findall(r'href="([^#"][^"]*)"', page)), {"data:,"})
        self.assertIn("default-src 'none'", page)
        ids = re.findall(r'\bid="([^"]*)"', page) + re.findall(r"\bid='([^']*)'", page)
        self.assertEqual(len(ids), len(set(ids)), "an id stands twice")
        self.assertNotIn("::", page.split("<body>")[1], "a name of the program's own")

    def test_the_page_tells_machine_versions_and_why_rows_failed(self):
        report(self.example, "-o", self.page)
        page = self.page.read_text()
        for fact in ("Example CPU @ 2.50GHz", "Linux 6.1.0", "Debian GNU/Linux 12 (bookworm)", "glibc 2.36",
                     "madvise", "2.0.9+ds-2", "strata 0.1.0", "killed by SIGSEGV, in run 1 of 5",
                     "crasher: bad chunk", "a block of 64 bytes changed while it was in use"):
            self.assertIn(html.escape(fact), page)

    def test_pictures_have_the_plots_of_the_page_and_are_not_blank(self):
        pictures = self.folder / "new" / "plots"
        done = report(self.example, "-o", self.page, "--png", pictures)
        self.assertEqual(done.returncode, 0, done.stderr)
        names = sorted(path.stem for path in pictures.iterdir())
        self.assertEqual(names, sorted(re.findall(r'<svg class="plot" id="([^"]*)"', self.page.read_text())))
        self.assertIn("churn-threads-1-alloc-percentiles", names)
        for picture in pictures.iterdir():
            width, height, rows = pixels(picture)
            self.assertEqual(width, 800)
            self.assertGreater(height, 200)
            self.assertGreater(len(set(rows)), 50, f"{picture.name} is blank")

    def test_a_picture_that_cannot_be_written_is_named(self):
        pictures = self.folder / "plots"
        report(self.example, "--png", pictures)
        full = sorted(pictures.iterdir())[1]
        full.unlink()
        full.symlink_to("/dev/full")
        done = report(self.example, "--png", pictures)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (1, "", f"strata report: could not write '{full}': No space left on device\n"))

    def test_each_drawing_is_well_formed(self):
        report(self.example, "-o", self.page)
        drawings = re.findall(r"<svg.*?</svg>", self.page.read_text(), re.S)
        self.assertGreater(len(drawings), 10)
        for drawing in drawings:
            xml.etree.ElementTree.fromstring(drawing)

    def test_results_of_compare_are_drawn_as_far_as_they_go(self):
        results = example_results()
        rows = [row for row in results["rows"] if row["params"]["threads"] == 1]
        for row in rows:
            for part in ("values", "ratios", "latencies", "timeline", "label", "failed_allocations", "broken"):
                row.pop(part, None)
            kept = {name: row["metrics"][name] for name in ("startup_s", "peak_rss_bytes") if name in row["metrics"]}
            row["metrics"] = kept
        done = report(self.write("compare.json", dict(results, rows=rows)), "-o", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(re.findall(r'<svg class="plot" id="([^"]*)"', done.stdout),
                         ["churn-startup-s", "churn-peak-rss-bytes"])

    def test_compare_feeds_the_report(self):
        path = self.folder / "compare.json"
        strata("compare", "--allocators", "system", "--runs", "2", "--warmup", "0", "--quiet", "--scenario", "nothing",
               "--json", str(path), "--", "true")
        done = report(path, "-o", self.page, "--png", self.folder / "plots")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(re.findall(r'<svg class="plot" id="([^"]*)"', self.page.read_text()),
                         ["nothing-elapsed-s", "nothing-peak-rss-bytes"])
        self.assertEqual(len(list((self.folder / "plots").iterdir())), 2)

    def test_the_table_of_everything_has_a_column_for_what_loads_are_compared_by(self):
        results = example_results()
        queue = json.loads(json.dumps(results["rows"][:3]))
        for row in queue:
            row["scenario"] = "queue"
            row["metrics"] = {"wall_s": row["metrics"]["ns_per_op"], "sent": row["metrics"]["ns_per_op"],
                              "peak_rss_bytes": row["metrics"]["peak_rss_bytes"]}
            row["values"], row["ratios"] = {}, {}
        done = report(self.write("two.json", dict(results, rows=results["rows"] + queue)), "-o", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        table = re.search(r'id="table".*?</thead>', done.stdout, re.S).group()
        self.assertEqual(re.findall(r"<button[^>]*>([^<]*)</button>", table),
                         ["contender", "scenario", "parameters", "operations per second", "ratio (95%)", "wall",
                          "ratio (95%)", "peak memory (RSS)", "ratio (95%)", "memory kept after the load (RSS)",
                          "latency p50", "latency p99", "latency p99.9"])

    def test_rows_of_several_files_stand_side_by_side(self):
        results = example_results()
        for row in results["rows"]:
            row["label"] = "after the change"
        done = report(self.example, self.write("after.json", results), "-o", self.page, "--title", "Both & more")
        self.assertEqual(done.returncode, 0, done.stderr)
        page = self.page.read_text()
        self.assertIn("<title>Both &amp; more</title>", page)
        self.assertIn("strata (before the change)", page)
        self.assertIn("strata (after the change)", page)
        bars = re.search(r'<svg class="plot" id="churn-threads-1-ops-per-s".*?</svg>', page, re.S).group()
        self.assertEqual(bars.count("<polygon"), 2 * OK)

    def test_names_cannot_reach_the_shell_through_gnuplot(self):
        trap = self.folder / "trap"
        results = example_results()
        for row in results["rows"]:
            row["scenario"] = f"`touch {trap}`"
            row["contender"] = f"x'; system('touch {trap}') #\n" + row["contender"] + f" %d \\ `touch {trap}`"
        path = self.write("results.json", results)
        done = report(path, "-o", self.page, "--png", self.folder / "plots")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(trap.exists())


class ReportRefusals(InFolder):
    def refused(self, *arguments, status=2, **options):
        done = report(*arguments, **options)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        sentence = done.stderr.removesuffix("Usage: strata report --help\n") if status == 2 else done.stderr
        self.assertRegex(sentence, r"\Astrata report: [^\n]+\n\Z")
        self.assertFalse(self.page.exists(), "a refused report left a page")
        return sentence

    def test_what_cannot_be_read_as_results_is_refused_by_file_and_field(self):
        results = example_results()
        del results["rows"][1]["metrics"]["ops_per_s"]["max"]
        cases = {
            "rows[1].metrics.ops_per_s.max is missing": results,
            "schema is 'other/1', not 'strata-results/1'": {"schema": "other/1"},
            "is not JSON": "{",
            "is empty": "",
            "schema is missing": {"name": "a package of others"},
            "is neither a result file, which --json writes, nor a heap profile": "scenario,contender\n",
            "it looks like a trace, which strata explain, ": b"\x89strata\n" + bytes(56),
            "it looks like calls in CSV, of which strata trace csv makes a trace": "operation,time_ns\n",
            "it looks like statistics of the malloc, which no command reads": '{"schema": "strata-stats/1"}',
        }
        for words, content in cases.items():
            path = self.write("bad.json", content)
            sentence = self.refused(self.example, path, "-o", self.page)
            self.assertIn(words, sentence)
            self.assertIn("bad.json", sentence)
        self.assertIn("there is nothing to report",
                      self.refused(self.write("none.json", dict(results, rows=[])), "-o", self.page))

    def test_of_a_file_that_is_too_large_only_what_no_report_reads_is_told(self):
        for begin, sentence in (('{"schema": "strata-results/1"', "give results or a heap profile"),
                                (b"\x1f\x8b", "give results or a heap profile"),
                                ('{"schema": "strata-stats/1"', "it looks like statistics of the malloc, ")):
            path = self.write("large", begin)
            os.truncate(path, 257 << 20)
            self.assertIn(f"'{path}' has more than 256 MiB; {sentence}", self.refused(path, "-o", self.page))

    def test_what_is_read_is_not_replaced(self):
        path = self.write("results.json", example_results())
        self.assertIn("is what is read; give another file", self.refused(self.example, path, "-o", path))
        self.assertEqual(path.read_text(), self.example.read_text())

    def test_files_that_are_not_there_and_options_that_make_no_sense(self):
        self.assertIn("No such file", self.refused(self.folder / "none.json", "-o", self.page))
        self.assertIn("is a folder", self.refused(self.folder, "-o", self.page))
        self.assertIn("no results given", self.refused("-o", self.page))
        self.assertIn("nothing to write", self.refused(self.example))
        self.assertIn("--png cannot make the folder 'xx", self.refused(self.example, "--png", "x" * 5000))
        self.assertIn("--title is for the page", self.refused(self.example, "--png", self.folder / "plots", "--title", "T"))
        self.assertIn("-o cannot write", self.refused(self.example, "-o", self.folder / "none" / "x.html"))
        self.assertIn("unknown option '--pngs'", self.refused(self.example, "--pngs", "-o", self.page))
        for pictures in (self.page, f"{self.page}/", self.page / "pictures" / "of it"):
            self.assertIn(f"'{self.page}' cannot be both the page of -o and a folder of --png; give one",
                          self.refused(self.example, "-o", self.page, "--png", pictures))
        blocked = self.write("file", "x")
        self.assertIn("--png cannot make the folder", self.refused(self.example, "--png", blocked))
        self.assertRegex(self.refused(self.example, "--png", "/proc"), "--png cannot write (into the folder )?'/proc")

    def test_an_interruption_leaves_nothing(self):
        temporary, tools = self.folder / "temporary", self.folder / "tools"
        for folder in (temporary, tools):
            folder.mkdir()
        (tools / "gnuplot").write_text("#!/bin/sh\nsleep 1000\n")
        (tools / "gnuplot").chmod(0o755)
        for moment in ("strata-report-*", "*/plots.gp"):
            process = subprocess.Popen([STRATA, "report", self.example, "-o", self.page], stderr=subprocess.DEVNULL,
                                       env={**os.environ, "TMPDIR": temporary, "PATH": f"{tools}:{os.environ['PATH']}"})
            while process.poll() is None and not list(temporary.glob(moment)):
                time.sleep(0.0002)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=300), -signal.SIGINT)
            self.assertEqual(list(temporary.iterdir()), [])
            self.assertFalse(self.page.exists())

    def test_an_interruption_while_the_page_is_written_leaves_nothing(self):
        temporary = self.folder / "temporary"
        temporary.mkdir()
        process = subprocess.Popen([STRATA, "report", self.example, "-o", self.page], stderr=subprocess.DEVNULL,
                                   env={**os.environ, "TMPDIR": temporary})
        for has_come in (lambda: any(temporary.iterdir()), lambda: not any(temporary.iterdir()),
                         lambda: any(self.folder.glob("report.html.*.new"))):
            while process.poll() is None and not has_come():
                pass
        process.send_signal(signal.SIGINT)
        self.assertIn(process.wait(timeout=300), (0, -signal.SIGINT))
        self.assertEqual(list(temporary.iterdir()), [])
        self.assertLessEqual(set(self.folder.iterdir()), {temporary, self.page, self.example})

    def test_without_gnuplot_one_sentence_says_what_to_install(self):
        empty = self.folder / "bin"
        empty.mkdir()
        sentence = self.refused(self.example, "-o", self.page, status=1, env={**os.environ, "PATH": str(empty)})
        self.assertIn("apt-get install gnuplot-nox", sentence)


# Looks at the plots, uses the page as a reader does, and writes down what it saw.
LOOK = """
function plots_of(page) {
  return Object.fromEntries([...page.querySelectorAll("svg.plot")].map((svg) => {
    for (let at = svg; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    const box = svg.getBoundingClientRect();
    const count = (what) => [...svg.querySelectorAll(".m " + what)].filter((mark) => {
      const {width, height} = mark.getBoundingClientRect();
      return width + height > 0;
    }).length;
    return [svg.id, {width: box.width, height: box.height, label: svg.getAttribute("aria-label"),
      lines: count("path"), areas: count("polygon"), dots: count("use"), words: svg.querySelectorAll("text").length,
      cut: [...svg.querySelectorAll("text")].filter((text) => {
        const words = text.getBoundingClientRect(), card = svg.closest("figure").getBoundingClientRect();
        return words.left < card.left || words.right > card.right || words.bottom > card.bottom;
      }).map((text) => text.textContent),
      tips: [...svg.querySelectorAll(".m title")].map((title) => title.textContent),
      broken: /NaN|undefined|rgb\\(1,|rgb\\( *1,/.test(svg.outerHTML)}];
  }));
}
function order_of(page, column) {
  const rows = [...page.querySelector("#table table.sortable").tBodies[0].rows];
  return rows.map((row) => row.cells[column]?.dataset.v ?? row.cells[column]?.textContent ?? "");
}
function look(frame) {
  const page = frame.contentDocument, window = frame.contentWindow;
  const seen = {plots: plots_of(page), faults: window.faults, title: page.title,
    fetched: window.performance.getEntriesByType("resource").map((entry) => entry.name),
    hacked: window.hacked === true, width: window.innerWidth, needed: page.documentElement.scrollWidth};
  const titles = [...page.querySelector("#table table.sortable").tHead.rows[0].cells];
  const column = titles.findIndex((title) => title.textContent === "operations per second");
  seen.sorting = [order_of(page, column)];
  for (let i = 0; i < 2; ++i) {
    titles[column].querySelector("button").click();
    seen.sorting.push(order_of(page, column));
  }
  seen.contenders = [...page.querySelectorAll(".legend button")].map((button) => button.textContent);
  seen.colours = [...page.querySelectorAll(".legend use")].map((mark) => window.getComputedStyle(mark).color);
  const chosen = () => new Set([...page.querySelectorAll("svg .chosen")].map((mark) => mark.dataset.series));
  page.querySelectorAll(".legend button")[1].click();
  seen.chosen = [...chosen()];
  seen.alone = page.body.classList.contains("alone");
  page.querySelectorAll(".legend button")[1].click();
  seen.released = [...chosen()];
  const bar = page.querySelector("#churn-threads-1-ops-per-s [data-series='1'] polygon");
  seen.colour = bar && window.getComputedStyle(bar).fill;
  return seen;
}
"""


def crowd():
    """A dozen contenders with long names, under four numbers of threads."""
    results = example_results()
    models = {row["contender"]: row for row in results["rows"]}
    rows = []
    for threads in (1, 2, 4, 8):
        for i in range(12):
            row = json.loads(json.dumps(models["mimalloc" if i else "system"]))
            row["contender"] = f"contender-{i}-with-a-long-name" if i else "system"
            row["params"]["threads"] = threads
            rows.append(row)
    return dict(results, rows=rows)


class ReportInBrowser(InFolder):
    """One start of the browser shows pages as on a desk and as on a phone, a hostile and a crowded one, too."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="strata-browser-") as name:
            folder = pathlib.Path(name)
            results = example_results()
            (folder / "example.json").write_text(json.dumps(results))
            for row in results["rows"]:
                if row["contender"] == "mimalloc":
                    row["contender"] = "<script>window.hacked = true</script>"
                row["params"]["mode"] = "\"><img src=x onerror='window.hacked = true'>"
                if "reason" in row:
                    row["reason"] = "</td><script>window.hacked = true</script>"
            (folder / "hostile.json").write_text(json.dumps(results))
            (folder / "crowd.json").write_text(json.dumps(crowd()))
            pages = []
            for frame, width, source in (("desk", 1200, folder / "example.json"), ("phone", 390, folder / "example.json"),
                                         ("hostile", 390, folder / "hostile.json"),
                                         ("crowd", 1200, folder / "crowd.json"),
                                         ("crowd on a phone", 390, folder / "crowd.json")):
                done = report(source, "-o", folder / "page.html", "--title", "</title><script>hacked = true</script>")
                if done.returncode != 0:
                    raise AssertionError(done.stderr)
                pages.append((frame, width, (folder / "page.html").read_text()))
            cls.seen = browser.seen(pages, LOOK)

    def test_every_plot_is_drawn_with_all_its_marks(self):
        plots = self.seen["desk"]["plots"]
        self.assertEqual(len(plots), 4 + 2 + 3 * 7)
        for name, plot in plots.items():
            with self.subTest(plot=name):
                self.assertGreater(plot["width"], 250)
                self.assertGreater(plot["height"], 80)
                self.assertGreater(plot["words"], 3)
                self.assertGreater(len(plot["label"]), 60)
                self.assertFalse(plot["broken"], "a colour or a number was left over")
                if name.endswith("-percentiles"):
                    self.assertEqual((plot["lines"], plot["areas"]), (OK, 0))
                elif name.endswith("-histogram"):
                    self.assertEqual(plot["areas"], OK)
                    self.assertGreaterEqual(plot["lines"], OK)
                elif name.endswith("-memory"):
                    self.assertEqual((plot["lines"], plot["dots"]), (OK, OK))
                elif name.startswith("overview"):
                    self.assertEqual(plot["dots"], 3 * (OK - 1))
                elif "-by-threads-" in name:
                    ideal = name.endswith("-ops-per-s")
                    self.assertEqual((plot["lines"], plot["dots"]), (OK + ideal, 3 * OK))
                else:
                    self.assertEqual(plot["areas"], OK)
                    self.assertEqual(plot["dots"], OK * 5, "one dot for each run")

    def test_every_mark_says_whose_it_is_and_its_number(self):
        desk = self.seen["desk"]
        names = [name for name in desk["contenders"] if name not in ("crasher", "overlaps")]
        for name, plot in desk["plots"].items():
            with self.subTest(plot=name):
                for contender in names:
                    if not (contender == "system" and name.startswith("overview")):
                        self.assertTrue(any(tip.startswith(contender) for tip in plot["tips"]), plot["tips"])
        bars = desk["plots"]["churn-threads-1-ops-per-s"]["tips"]
        self.assertTrue(any(re.match(r"strata: \d.*/s", tip) for tip in bars), bars)
        lines = desk["plots"]["churn-by-threads-ops-per-s"]["tips"]
        self.assertTrue(any(re.match(r"strata: \d.*/s with 1, \d.*/s with 2, \d.*/s with 4$", tip) for tip in lines),
                        lines)

    def test_colours_come_from_the_page(self):
        self.assertEqual(self.seen["desk"]["colour"], "rgb(213, 94, 0)")

    def test_a_click_on_a_title_sorts_the_table_and_another_turns_it_round(self):
        before, up, down = self.seen["desk"]["sorting"]
        self.assertNotEqual(before, up)
        values = [float(value) for value in up if value != ""]
        self.assertEqual(len(values), 3 * OK)
        self.assertEqual(values, sorted(values))
        self.assertEqual([float(value) for value in down if value != ""], values[::-1])
        for order in (up, down):
            self.assertEqual(order[-3 * FAILED:], [""] * 3 * FAILED, "rows without a number are not last")

    def test_a_click_on_a_contender_singles_it_out_until_the_next(self):
        desk = self.seen["desk"]
        self.assertEqual(desk["contenders"], ["system", "strata", "mimalloc", "crasher", "overlaps"])
        self.assertEqual((desk["alone"], desk["chosen"], desk["released"]), (True, ["1"], []))

    def test_nothing_is_fetched_and_no_script_fails(self):
        for frame in self.seen.values():
            self.assertEqual((frame["fetched"], frame["faults"]), ([], []))

    def test_a_phone_never_scrolls_sideways(self):
        for name in ("phone", "hostile", "crowd on a phone"):
            frame = self.seen[name]
            self.assertLessEqual(frame["width"], 390)
            self.assertLessEqual(frame["needed"], frame["width"])
        for plot in self.seen["phone"]["plots"].values():
            self.assertGreater(plot["width"], 300, "too small to read")

    def test_no_word_of_a_plot_is_cut_off(self):
        for name, frame in self.seen.items():
            for plot, seen in frame["plots"].items():
                self.assertEqual(seen["cut"], [], f"{name}: {plot}")

    def test_a_dozen_contenders_have_a_look_each(self):
        crowd = self.seen["crowd"]
        self.assertEqual(len(crowd["contenders"]), 12)
        self.assertEqual(len(set(crowd["colours"])), 12)
        self.assertEqual(crowd["plots"]["churn-by-threads-ops-per-s"]["lines"], 12 + 1)  # and the ideal

    def test_names_are_text_whatever_they_contain(self):
        hostile = self.seen["hostile"]
        self.assertFalse(hostile["hacked"])
        self.assertEqual(hostile["title"], "</title><script>hacked = true</script>")
        self.assertIn("<script>window.hacked = true</script>", hostile["contenders"])


if __name__ == "__main__":
    unittest.main()
