#!/usr/bin/env python3
"""Heap profiles from end to end: a program with known places runs on the real library, and `strata` tells
of them. The environment is that of end_to_end_test.py."""
import gzip
import html
import html.parser
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import browser
import end_to_end_test
from end_to_end_test import FIXTURES, PLAIN, PROGRAM, STRATA, InFolder

LEAKY = str(FIXTURES / "leaky")
KEPT = 10 * 5000


def strata(*arguments, **options):
    return end_to_end_test.strata(*arguments, env=PLAIN, **options)


class Leaks(unittest.TestCase):
    def test_each_place_is_told_with_function_file_line_and_bytes(self):
        done = strata("run", "--leaks", "--", LEAKY)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"bytes in \d+ allocations are live at exit of leaky \(process \d+\)")
        places = done.stderr.split("strata: ")
        kept = [place for place in places if place.startswith(f"{KEPT} bytes in 10 allocations by")]
        self.assertEqual(len(kept), 1, done.stderr)
        self.assertRegex(kept[0], r"app::keep_buffers  \S*leaky\.cpp:15\n")
        self.assertRegex(kept[0], r"main  \S*leaky\.cpp:\d+\n")
        helper = [place for place in places if place.startswith("7777 bytes in 1 allocation by")]
        self.assertEqual(len(helper), 1, done.stderr)
        self.assertRegex(helper[0], r"app::inlined_helper  \S*leaky\.cpp:19\n +#1 +app::use_helper  \S*leaky\.cpp:22\n")
        self.assertNotIn("churn", done.stderr)

    def test_names_reach_no_terminal_as_escapes(self):
        with tempfile.TemporaryDirectory() as folder:
            program = shutil.copy(LEAKY, pathlib.Path(folder) / "leaky\033[2J")
            done = strata("run", "--leaks", "--", program)
        self.assertIn("are live at exit of leaky?[2J (process ", done.stderr)
        self.assertNotIn("\033", done.stderr)

    def test_code_between_the_parts_of_a_unit_has_no_line_of_it(self):
        done = strata("run", "--leaks", "--", str(FIXTURES / "leaky_thread"))
        self.assertRegex(done.stderr, r"99 bytes in 1 allocation by\n +#0 +main  \S*leaky_thread\.cpp:9\n")
        self.assertRegex(done.stderr, r" _start\n")
        self.assertNotRegex(done.stderr, r" _start  ")

    def test_the_end_is_the_commands_own(self):
        self.assertEqual(strata("run", "--leaks", "--", LEAKY, "exit", "7").returncode, 7)
        done = strata("run", "--leaks", "--", LEAKY, "kill", str(int(signal.SIGSEGV)))
        self.assertEqual(done.returncode, -signal.SIGSEGV)
        self.assertRegex(done.stderr, "is not known: .*killed by SIGSEGV")

    def test_the_end_is_the_commands_own_where_standard_error_is_closed_or_full(self):
        for redirection in ("2>&-", "2>/dev/full"):
            done = subprocess.run(["sh", "-c", f'exec "$0" "$@" {redirection}', STRATA, "run", "--leaks", "--", LEAKY,
                                   "exit", "7"], env=PLAIN)
            self.assertEqual(done.returncode, 7, redirection)

    def test_signals_reach_the_command(self):
        process = subprocess.Popen([STRATA, "run", "--leaks", "--", LEAKY, "wait"], text=True, env=PLAIN,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), "waiting\n")
        # The handler is set right after the line; whichever comes first ends it.
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=300)
        self.assertIn(process.returncode, (5, -signal.SIGTERM), err)

    def test_a_report_that_is_interrupted_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen([STRATA, "run", "--leaks", "--", LEAKY], env={**PLAIN, "TMPDIR": folder},
                                       stderr=subprocess.DEVNULL)
            while process.poll() is None and not list(pathlib.Path(folder).glob("strata-leaks-*/*.pb")):
                time.sleep(0.0005)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=300)
            self.assertEqual(os.listdir(folder), [])

    def test_a_signal_before_the_program_starts_leaves_no_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(50):
                process = subprocess.Popen([STRATA, "run", "--leaks", "--", "true"], env={**PLAIN, "TMPDIR": folder},
                                           stderr=subprocess.DEVNULL)
                while process.poll() is None and not os.listdir(folder):
                    pass
                process.terminate()
                process.wait(timeout=60)
                self.assertEqual(os.listdir(folder), [])

    def test_programs_that_it_starts_are_told_of_too(self):
        done = strata("run", "--leaks", "--", "sh", "-c", f"{LEAKY}; {LEAKY}")
        self.assertEqual(done.stderr.count(f"{KEPT} bytes in 10 allocations by"), 2, done.stderr)

    def test_a_command_that_is_not_there_is_refused_as_ever(self):
        self.assertEqual(strata("run", "--leaks", "--", "no-such-program").returncode, 127)


class Page(html.parser.HTMLParser):
    """The frames of the drawing and the data of the script."""

    def __init__(self, text):
        super().__init__()
        self.frames, self.data, self.inside = {}, "", None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if attributes.get("class") == "f":
            self.frames[attributes["title"].split("\n")[0]] = attributes["title"]
        self.inside = attributes.get("id")

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "flame-data":
            self.data += data


class Profiles(InFolder):
    def profile(self, name, *words, rate="1"):
        path = self.folder / name
        done = strata("run", "--profile", str(path), "--profile-rate", rate, "--", LEAKY, *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return str(path)

    def test_the_table_tells_what_is_live_and_what_was_allocated(self):
        path = self.profile("heap.pb.gz")
        live = strata("profile", path)
        self.assertEqual((live.returncode, live.stderr), (0, ""))
        self.assertRegex(live.stdout, r"leaky, inuse_space: .*every allocation counted")
        self.assertRegex(live.stdout, r"app::keep_buffers  leaky\.cpp:15 +48\.8\sKiB")
        self.assertNotIn("churn", live.stdout)
        self.assertRegex(live.stdout, r"app::hold_task  leaky\.cpp:\d+ +5\.89\sKiB", "what the library does for it")
        allocated = strata("profile", path, "--sample", "alloc_objects", "--top", "1")
        self.assertRegex(allocated.stdout, r"app::churn  leaky\.cpp:26 +100 ")
        self.assertIn("more places", allocated.stdout)

    def test_a_profile_without_a_row_says_why(self):
        path = str(self.folder / "heap.pb.gz")
        for rate, words in (("1", "Nothing that was sampled is live; --sample alloc_space shows what was allocated"),
                            ("1g", "Nothing was sampled; a smaller --profile-rate of strata run samples more, and 1 all")):
            strata("run", "--profile", path, "--profile-rate", rate, "--set", "random=1", "--", PROGRAM)
            done = strata("profile", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.splitlines()[1:], [words])

    def test_the_difference_is_what_has_grown(self):
        older, newer = self.profile("a.pb.gz"), self.profile("b.pb.gz", "twice")
        grown = strata("profile", newer, "--diff", older)
        self.assertRegex(grown.stdout, r"app::keep_buffers  leaky\.cpp:15 +\+48\.8\sKiB")
        self.assertNotIn("use_helper", grown.stdout)

    def test_the_page_has_its_frames_with_and_without_script(self):
        path = self.profile("heap.pb.gz")
        target = self.folder / "heap.html"
        done = strata("report", path, "-o", str(target))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        text = target.read_text()
        self.assertNotRegex(text, r'class="scroll[^"]*"(?! tabindex="0")', "a box that the keyboard does not scroll")
        page = Page(text)
        for function in ("leaky", "main", "app::keep_buffers", "app::use_helper", "app::inlined_helper"):
            self.assertIn(function, page.frames)
        self.assertIn("inuse_space: 48.8\u00a0KiB", page.frames["app::keep_buffers"])
        data = json.loads(page.data)
        self.assertEqual([name for name, _ in data["kinds"]],
                         ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"])
        self.assertIn("app::churn", [frame[0] for frame in data["frames"]])
        self.assertIsNone(re.search(r"(src|href)=\"(https?:)?//", text), "it needs a network")

    def test_lines_are_found_without_the_table_of_addresses_that_clang_leaves_out(self):
        clangs = self.folder / "clangs"
        subprocess.run(["objcopy", "--remove-section=.debug_aranges", LEAKY, clangs], check=True)
        path = self.folder / "clangs.pb.gz"
        strata("run", "--profile", str(path), "--profile-rate", "1", "--", str(clangs))
        self.assertRegex(strata("profile", str(path)).stdout, r"app::keep_buffers  leaky\.cpp:15 +48\.8\sKiB")

    def test_a_file_without_symbols_shows_module_and_offset(self):
        stripped = self.folder / "bare"
        subprocess.run(["strip", "-o", stripped, LEAKY], check=True)
        path = self.folder / "bare.pb.gz"
        strata("run", "--profile", str(path), "--profile-rate", "1", "--", str(stripped))
        self.assertRegex(strata("profile", str(path)).stdout, r"bare\+0x[0-9a-f]+ +48\.8\sKiB")

    def test_a_file_with_a_newline_in_its_path_is_found(self):
        folder = self.folder / "two\nlines"
        folder.mkdir()
        path = self.folder / "leaky.pb.gz"
        strata("run", "--profile", str(path), "--profile-rate", "1", "--", shutil.copy(LEAKY, folder))
        self.assertRegex(strata("profile", str(path)).stdout, r"app::keep_buffers  leaky\.cpp:15 +48\.8\sKiB")

    def test_another_build_of_the_file_is_not_taken_for_it(self):
        mine = self.folder / "mine"
        mine.write_bytes(pathlib.Path(LEAKY).read_bytes())
        mine.chmod(0o755)
        path = self.folder / "mine.pb.gz"
        strata("run", "--profile", str(path), "--profile-rate", "1", "--", str(mine))
        mine.unlink()
        mine.write_bytes(pathlib.Path("/bin/sh").read_bytes())
        done = strata("profile", str(path))
        self.assertIn("is not the file that was profiled", done.stderr)
        self.assertNotIn("keep_buffers", done.stdout)

    def test_the_profile_is_where_it_was_asked_for_whatever_folder_the_command_ends_in(self):
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        done = strata("run", "--profile", "heap.pb.gz", "--profile-rate", "1", "--", "sh", "-c",
                      f"cd elsewhere && exec {LEAKY}", cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(list(elsewhere.iterdir()), [])
        self.assertIn("app::keep_buffers", strata("profile", str(self.folder / "heap.pb.gz")).stdout)

    def test_with_leaks_the_profile_is_kept_as_well(self):
        path = self.folder / "heap.pb.gz"
        done = strata("run", "--leaks", "--profile", str(path), "--", LEAKY)
        self.assertIn("app::keep_buffers", done.stderr)
        self.assertIn("app::keep_buffers", strata("profile", str(path)).stdout)

    def test_with_leaks_the_profile_goes_through_a_pipe_as_well(self):
        pipe, kept = self.folder / "pipe", self.folder / "kept.pb.gz"
        os.mkfifo(pipe)
        reader = subprocess.Popen(["timeout", "60", "cat", str(pipe)], stdout=subprocess.PIPE)
        done = strata("run", "--leaks", "--profile", str(pipe), "--", LEAKY)
        kept.write_bytes(reader.communicate()[0])
        self.assertIn("app::keep_buffers", strata("profile", str(kept)).stdout, done.stderr)
        done = strata("run", "--leaks", "--profile", "/dev/full", "--", LEAKY)
        self.assertTrue(done.stderr.endswith(
            "strata: warning: could not write '/dev/full': No space left on device\n"), done.stderr)

    def test_with_leaks_the_profile_of_every_process_is_kept_by_its_number(self):
        done = strata("run", "--leaks", "--profile", str(self.folder / "%p.pb.gz"), "--", "sh", "-c",
                      f"{LEAKY}; {LEAKY}")
        told = re.findall(r"exit of \S*leaky\S* \(process (\d+)\)", done.stderr)
        self.assertEqual(len(told), 2)
        for process in told:
            kept = self.folder / f"{process}.pb.gz"
            self.assertIn("app::keep_buffers", strata("profile", str(kept)).stdout)

    def test_a_profile_that_is_not_compressed_is_read_as_well(self):
        compressed = pathlib.Path(self.profile("heap.pb.gz"))
        plain = self.folder / "heap.pb"
        plain.write_bytes(gzip.decompress(compressed.read_bytes()))
        self.assertEqual(strata("profile", str(plain)).stdout, strata("profile", str(compressed)).stdout)
        done = strata("report", str(plain), "-o", str(self.folder / "heap.html"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("app::keep_buffers", Page((self.folder / "heap.html").read_text()).frames)

    def test_what_makes_no_sense_is_refused_by_name(self):
        text = self.folder / "notes.txt"
        text.write_text("no profile at all")
        damaged = self.folder / "cut.pb.gz"
        damaged.write_bytes(pathlib.Path(self.profile("heap.pb.gz")).read_bytes()[:60])
        trace = self.folder / "app.trace"
        trace.write_bytes(b"\x89strata\n" + bytes(56))
        results = self.folder / "results.json"
        results.write_text('{"schema": "strata-results/1"}')
        good = str(self.folder / "heap.pb.gz")
        for words, sentence in (
                (("profile", str(trace)), f"'{trace}' is not a heap profile: it looks like a trace, which strata explain, "
                                          "advise, replay, bench and trace read\n"),
                (("profile", good, "--diff", str(results)), "it looks like results, which strata report reads\n"),
                (("profile", str(text)), f"'{text}' is not a heap profile"),
                (("profile", str(damaged)), f"'{damaged}' is not a heap profile: it is cut short"),
                (("profile", str(self.folder / "none")), "cannot be read"),
                (("profile", "/proc/self/mem"), "'/proc/self/mem' cannot be read: Input/output error"),
                (("profile", good, "--diff", "/dev/zero"), "'/dev/zero' has more than 256 MiB; give results or a heap profile"),
                (("profile",), "no profile given"),
                (("profile", good, "--sample", "bytes"), "--sample 'bytes' is not in"),
                (("profile", good, "--top", "x"), "--top is 'x'"),
                (("report", str(damaged), "-o", str(self.folder / "x.html")), "it is cut short"),
                (("report", good, good, "-o", str(self.folder / "x.html")), "a page of its own"),
                (("run", "--profile-rate", "0", "--profile", good, "--", LEAKY), "--profile-rate is '0'"),
                (("run", "--profile-rate", "1k", "--", LEAKY), "needs --profile FILE")):
            done = strata(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(sentence, done.stderr)


# What a person does with the page.
LOOK = """
function look(frame) {
  const page = frame.contentDocument, window = frame.contentWindow;
  const boxes = () => [...page.querySelectorAll(".f")].map((box) => box.title.split("\\n")[0]);
  const box = (name) => [...page.querySelectorAll(".f")].find((one) => one.textContent === name);
  const seen = {whole: boxes(), needed: page.documentElement.scrollWidth};
  const before = box("app::use_helper").getBoundingClientRect().width;
  box("app::use_helper").click();
  seen.zoomed = boxes();
  seen.wide = box("app::use_helper").getBoundingClientRect().width > before * 3;
  seen.shown = page.querySelector(".shown").textContent;
  page.querySelector(".whole").click();
  seen.back = boxes();
  const search = page.querySelector("input[type=search]");
  search.value = "KEEP_";
  search.dispatchEvent(new window.Event("input"));
  seen.found = [...page.querySelectorAll(".f.found")].map((one) => one.textContent);
  seen.sum = page.querySelector(".shown").textContent;
  search.value = "";
  search.dispatchEvent(new window.Event("input"));
  page.querySelector("[data-kind='1']").click();
  seen.allocated = boxes();
  return seen;
}
"""


class FlamesInBrowser(InFolder):
    def test_zoom_search_and_the_kinds_work_and_a_phone_never_scrolls_sideways(self):
        path, page = self.folder / "heap.pb.gz", self.folder / "heap.html"
        strata("run", "--profile", str(path), "--profile-rate", "1", "--", LEAKY)
        strata("report", str(path), "-o", str(page))
        seen = browser.seen([("phone", 390, page.read_text())], LOOK)["phone"]
        self.assertLessEqual(seen["needed"], 390)
        self.assertIn("app::keep_buffers", seen["whole"])
        self.assertNotIn("app::churn", seen["whole"])
        self.assertNotIn("app::keep_buffers", seen["zoomed"])
        self.assertIn("app::inlined_helper", seen["zoomed"])
        self.assertTrue(seen["wide"])
        self.assertRegex(seen["shown"], r"^app::use_helper .*leaky\.cpp\n.*inuse_space 7\.\d+\sKiB")
        self.assertEqual(seen["back"], seen["whole"])
        self.assertEqual(seen["found"], ["app::keep_buffers"])
        self.assertIn("Found: 48.8\u00a0KiB", seen["sum"])
        self.assertIn("app::churn", seen["allocated"])


if __name__ == "__main__":
    unittest.main()
