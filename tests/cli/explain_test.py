#!/usr/bin/env python3
"""`strata explain` from end to end, and its page in a browser. The environment is that of end_to_end_test.py; the
class ExplainInBrowser has CLI_TEST_CHROMIUM, too."""
import html
import os
import re
import unittest

import browser
from end_to_end_test import InFolder, LIKE_STRATA, strata

# Two threads; a place that holds the peak, one of temporaries, one that grows, one that never frees; names that
# are as long as templates make them, and hostile ones.
LONG = "ns::Registry<std::map<std::string, std::vector<ns::Item<int>>>>::Slot<17>::" + "deeply_nested_" * 8 + "insert"
HOSTILE = "<script>window.hacked = true</script>"


def made_csv():
    lines = ["operation,time_ns,thread,object,size_bytes,stack,ended", f"#process,command,./app {HOSTILE}",
             "#thread,0,100,main", "#thread,1,101,worker", f"#stack,1,0,0x{0x1000:x}"]
    lines += [f"#stack,{i},1,0x{0x1000 * i:x}" for i in range(2, 30)]
    now, number = 0, 0

    def add(operation, thread, size="", stack="", ended=""):
        nonlocal now, number
        now += 1000
        object_name = ""
        if size != "":
            number += 1
            object_name = str(number)
        lines.append(f"{operation},{now},{thread},{object_name},{size},{stack},{ended}")
        return object_name

    kept = [add("malloc", 0, 1000 + i, 2) for i in range(300)]
    for i in range(200):
        add("free", 0, ended=add("malloc", 0, 64, 3))
    grown = add("malloc", 0, 100, 4)
    for i in range(9):
        grown = add("realloc", 0, 100 << (i + 1), 4, grown)
    add("free", 0, ended=grown)
    for stack in range(5, 30):
        add("malloc", 1, 10 * stack, stack)
    for name in kept[:150]:
        add("free", 1, ended=name)
    for name in kept[150:290]:
        add("delete", 0, ended=name)
    lines.append("#end,reason,exit")
    return "\n".join(lines) + "\n"


class Explained(InFolder):
    def setUp(self):
        super().setUp()
        self.trace = self.folder / "app.trace"
        (self.folder / "app.csv").write_text(made_csv())
        done = strata("trace", "csv", str(self.folder / "app.csv"), "-o", str(self.trace))
        self.assertEqual(done.returncode, 0, done.stderr)


class Explain(Explained):
    def test_the_text_says_what_there_was_and_which_places_hold_the_peak(self):
        done = strata("explain", str(self.trace), "--top", "3")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for line in (r"calls of 2 threads in ", r"Peak: 3\d\d\sKiB in 3\d\d objects, after ", r"Resized: 9 times\n",
                     r"allocated again: \d+\.\d% of those freed\nFreed by another thread: \d+\.\d% of those freed\n",
                     r"\n0x1fff +\d{3}\sKiB +300 ", r"\n\d+ more places; --top 0 shows all\n"):
            self.assertRegex(done.stdout, line)

    def test_tables_fit_a_narrow_terminal(self):
        for columns in (40, 70):
            lines = self.in_terminal("explain", str(self.trace), columns=columns).splitlines()
            rows = [line for line in lines if line.startswith("0x")]
            self.assertGreater(len(rows), 10)
            for row in rows:
                self.assertLessEqual(len(row), columns, row)

    def test_one_is_no_plural(self):
        (self.folder / "one.csv").write_text("operation,time_ns,object,size_bytes,ended\nmalloc,0,1,8,\nrealloc,1,2,9,1\n"
                                             "malloc,2,,8,\n")
        one = str(self.folder / "one")
        self.assertEqual(strata("trace", "csv", str(self.folder / "one.csv"), "-o", one).returncode, 0)
        text = strata("explain", one).stdout
        for line in ("3 calls of 1 thread in ", ": 2 objects, ", "Peak: 9 B in 1 object, ", "Never freed: 9 B in 1 object\n",
                     "Resized: 1 time\n", "Refused: 1 allocation\n"):
            self.assertIn(line, text)
        self.assertIn(" 1 call that found no memory\n", strata("trace", "info", one).stdout)

    def test_the_page_is_one_file_that_names_no_other_and_the_plots_are_pictures_too(self):
        page, pictures = self.folder / "page.html", self.folder / "pictures"
        done = strata("explain", str(self.trace), "-o", str(page), "--png", str(pictures), "--map", "system")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = page.read_text()
        self.assertNotRegex(text, r'class="scroll[^"]*"(?! tabindex="0")', "a box that the keyboard does not scroll")
        self.assertNotRegex(text, r"(?i)https?:|url\(|@import|\bsrc=")
        self.assertIn("default-src 'none'", text)
        self.assertNotIn(HOSTILE, text)
        self.assertEqual(sorted(path.name for path in pictures.iterdir()),
                         ["holders.png", "live-bytes.png", "live-objects.png", "resized.png", "sizes.png"])
        for path in pictures.iterdir():
            self.assertEqual(path.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_the_page_is_utf8_whatever_the_command_is(self):
        text, page = self.folder / "odd.csv", self.folder / "odd.html"
        text.write_bytes(made_csv().encode().replace(b"./app", b"./\xc3\xa4\xff\xe2\x82"))
        self.assertEqual(strata("trace", "csv", str(text), "-o", str(self.trace)).returncode, 0)
        done = strata("explain", str(self.trace), "-o", str(page), errors="replace")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("<code>./ä\ufffd\ufffd ", page.read_text(encoding="utf-8"))

    def test_a_function_to_look_past_that_is_not_there_is_named(self):
        for command in (("explain",), ("advise", "--runs", "3", "--places", "1", "--quiet")):
            done = strata(*command, str(self.trace), "--skip", "0x1fff,xmaloc")
            self.assertEqual((done.returncode, done.stderr), (0, "strata: warning: --skip xmaloc has no effect: no call "
                                                                 "comes from a function of that name\n"), command)
            self.assertNotIn("0x1fff", done.stdout)

    def test_a_place_names_the_callers_that_hold_most_of_it(self):
        lines = ["operation,time_ns,thread,object,size_bytes,stack,ended", "#thread,0,100,main",
                 f"#stack,1,0,0x{0x1000:x}"]
        # One place, 0xffff, that six others call: the first seldom and for little, the rest more and more.
        for caller in range(6):
            lines.append(f"#stack,{2 + 2 * caller},1,0x{0x2000 + 0x1000 * caller:x}")
            lines.append(f"#stack,{3 + 2 * caller},{2 + 2 * caller},0x10000")
        number = 0
        for caller in range(6):
            for _ in range(10 * caller + 1):
                number += 1
                lines.append(f"malloc,{number},0,{number},100,{3 + 2 * caller},")
        lines.append("#end,reason,exit")
        (self.folder / "wrapped.csv").write_text("\n".join(lines) + "\n")
        trace, page = self.folder / "wrapped.trace", self.folder / "wrapped.html"
        strata("trace", "csv", str(self.folder / "wrapped.csv"), "-o", str(trace))
        self.assertEqual(strata("explain", str(trace), "-o", str(page)).returncode, 0)
        details = re.search(r"<details><summary>0xffff</summary>(.*?)</details>", page.read_text()).group(1)
        self.assertEqual(re.findall(r"<p>(.*?)</p><ol><li>(0x\w+)</li>", details),
                         [("33% of it", "0x6fff"), ("26% of it", "0x5fff"), ("20% of it", "0x4fff")])

    def test_a_folder_of_pictures_that_cannot_be_is_refused_before_the_trace_is_read(self):
        page, letter = self.folder / "page.html", self.folder / "letter"
        letter.touch()
        for pictures, sentence in ((letter, f"--png cannot make the folder '{letter}': "),
                                   (page, f"'{page}' cannot be both the page of -o and a folder of --png; give one"),
                                   (page / "pictures", f"'{page}' cannot be both the page of -o and a folder of --png; ")):
            done = strata("explain", str(self.trace), "-o", str(page), "--png", str(pictures))
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(sentence, done.stderr)
            self.assertFalse(page.exists())

    def test_a_folder_of_pictures_is_judged_before_gnuplot_is_looked_for_and_made_after_that(self):
        pictures, empty = self.folder / "pictures", self.folder / "empty path"
        empty.mkdir()
        for name, status, sentence in (("", 2, "--png names no folder; give a path"), (str(pictures), 1, "is not installed")):
            done = strata("explain", str(self.trace), "--png", name, env={**os.environ, "PATH": str(empty)})
            self.assertEqual((done.returncode, done.stdout), (status, ""))
            self.assertIn(sentence, done.stderr)
        self.assertFalse(pictures.exists())

    def test_the_page_is_there_where_the_pictures_fail(self):
        page, pictures, path = (self.folder / name for name in ("page.html", "pictures", "path"))
        path.mkdir()
        (path / "gnuplot").write_text('#!/bin/sh\ngrep -q pngcairo "$2" && exit 1\nexec /usr/bin/env PATH="$OLD" gnuplot "$@"\n')
        (path / "gnuplot").chmod(0o755)
        done = strata("explain", str(self.trace), "-o", str(page), "--png", str(pictures),
                      env={**os.environ, "OLD": os.environ["PATH"], "PATH": f"{path}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("gnuplot could not draw the plots", done.stderr)
        self.assertIn("</html>", page.read_text())

    def test_another_library_can_be_strata_on_the_page(self):
        done = strata("explain", str(self.trace), "--map", "strata", "--library", LIKE_STRATA, "-o", "-", "--quiet")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("OS pages under strata by how full they are", done.stdout)

    def test_mistakes_are_named(self):
        cases = (((), "name a trace"), ((str(self.trace), str(self.trace)), "one trace at a time"),
                 ((str(self.folder / "app.csv"),), "is not a trace"), (("/no/file",), "'/no/file' cannot be read"),
                 ((str(self.trace), "--map", "system"), "give -o FILE"),
                 ((str(self.trace), "--title", "T"), "--title is for the page; give -o FILE"),
                 ((str(self.trace), "--png", ""), "--png names no folder"), ((str(self.trace), "--top", "x"), "'x'"),
                 ((str(self.trace), "-o", "/no/folder/page"), "/no/folder/page"),
                 ((str(self.trace), "--library", LIKE_STRATA),
                  "--library has no effect: it is for the allocator 'strata', which is not named\n"),
                 ((str(self.trace), "--map", "strata", "-o", "-", "--library", "/none"),
                  "strata: /none does not exist or cannot be read; check the path\n"))
        for words, sentence in cases:
            done = strata("explain", *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(sentence, done.stderr)
        for words in (("replay",), ("bench", "churn", "--ops", "1000")):
            done = strata(*words, "--allocators", "system", "--runs", "1", str(self.trace), str(self.trace))
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(f"trace '{self.trace}' is named twice\n", done.stderr)
        empty = self.folder / "empty"
        (self.folder / "empty.csv").write_text("operation\n")
        strata("trace", "csv", str(self.folder / "empty.csv"), "-o", str(empty))
        self.assertIn("has no events to explain", strata("explain", str(empty)).stderr)
        self.assertRegex(strata("trace", "info", str(empty)).stdout, r"events +0 in .* in the file\n")


# Uses each page as a reader does, and writes down what it saw.
LOOK = """
function drawn(element, what) {
  return [...element.querySelectorAll(what)].filter((mark) => {
    const {width, height} = mark.getBoundingClientRect();
    return width + height > 0;
  }).length;
}
function plots_of(page) {
  return Object.fromEntries([...page.querySelectorAll("svg.plot")].map((svg) => {
    const box = svg.getBoundingClientRect();
    return [svg.id, {width: box.width, height: box.height, marks: drawn(svg, ".m path, .m polygon, .m use"),
      words: svg.querySelectorAll("text").length, broken: /NaN|undefined/.test(svg.outerHTML)}];
  }));
}
function look(frame) {
  const page = frame.contentDocument, window = frame.contentWindow;
  const table = page.querySelector("table.places"), rows = () => [...table.tBodies[0].rows];
  const seen = {plots: plots_of(page), faults: window.faults, hacked: window.hacked === true,
    fetched: window.performance.getEntriesByType("resource").length,
    width: window.innerWidth, needed: page.documentElement.scrollWidth, sections: {}};
  for (const section of page.querySelectorAll("main section")) {
    seen.sections[section.id] = drawn(section, "svg.heat rect, svg.heat path, svg.plot .m, tbody tr");
  }
  seen.titles = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  seen.sorted = seen.titles.map((_, column) => [0, 1].map(() => {
    table.tHead.rows[0].cells[column].querySelector("button").click();
    return rows().map((row) => row.cells[column].dataset.v);
  }));
  const shown = () => rows().filter((row) => row.getBoundingClientRect().height > 0).length;
  const input = page.querySelector(".filter input");
  seen.found = ["", "0x1fff", "0xFFF", "no such place"].map((wanted) => {
    input.value = wanted;
    input.dispatchEvent(new window.Event("input"));
    return [shown(), page.querySelector(".filter output").textContent];
  });
  input.value = "";
  input.dispatchEvent(new window.Event("input"));
  const first = table.querySelector("details");
  const closed = first.getBoundingClientRect().height;
  first.querySelector("summary").click();
  seen.callers = [closed, first.getBoundingClientRect().height, first.querySelector("ol").textContent];
  seen.box = page.querySelector(".scroll.tall").getBoundingClientRect().height;
  return seen;
}
"""


class ExplainInBrowser(Explained):
    """One start of the browser shows the page as on a desk and as on a phone, with long names, too."""

    def look(self):
        page = self.folder / "page.html"
        done = strata("explain", str(self.trace), "-o", str(page), "--map", "system", "--title", f"</title>{HOSTILE}")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = page.read_text()
        long_names = text.replace("0x1fff", html.escape(LONG))
        return browser.seen((("desk", 1200, text), ("phone", 390, text), ("long", 390, long_names)), LOOK)

    def check_table(self, seen):
        for title, (ascending, descending) in zip(seen["titles"], seen["sorted"]):
            with self.subTest(column=title):
                key = (lambda place: int(place, 16)) if title.startswith("Where") else float
                values = list(map(key, ascending))
                self.assertEqual(values, sorted(values))
                self.assertEqual(list(map(key, descending)), values[::-1])
        places = len(seen["sorted"][0][0])
        self.assertEqual(places, 28)
        self.assertEqual(seen["found"], [[places, f"{places} of {places} places"], [1, f"1 of {places} places"],
                                         [places, f"{places} of {places} places"], [0, f"0 of {places} places"]])
        closed, opened, callers = seen["callers"]
        self.assertGreater(opened, closed + 10)
        self.assertIn("0xfff", callers)

    def test_every_plot_is_drawn_and_the_table_is_sorted_and_searched(self):
        pages = self.look()
        for name, seen in pages.items():
            with self.subTest(page=name):
                self.assertEqual((seen["faults"], seen["hacked"], seen["fetched"]), ([], False, 0))
                self.assertLessEqual(seen["needed"], seen["width"], "the page is wider than the screen")
                self.assertLess(seen["box"], 700, "the table pushes the rest of the page away")
                self.assertEqual(set(seen["plots"]), {"holders", "live-bytes", "live-objects", "sizes", "resized"})
                for plot in seen["plots"].values():
                    self.assertGreater(min(plot["width"] - 250, plot["height"] - 80, plot["marks"], plot["words"] - 3), 0)
                    self.assertFalse(plot["broken"])
                self.assertEqual(set(seen["sections"]), {"course", "places", "lives", "sizes-lives", "threads", "pages"})
                for section, marks in seen["sections"].items():
                    self.assertGreater(marks, 1, section)
        self.check_table(pages["desk"])


if __name__ == "__main__":
    unittest.main()
