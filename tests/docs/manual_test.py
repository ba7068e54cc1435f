#!/usr/bin/env python3
"""The manual pages are sound, and hold every command, option and function that there is.

usage: manual_test.py --source DIR --build DIR --mandoc PROGRAM
"""
import argparse
import pathlib
import re
import subprocess
import unittest

ROOT = BUILD = MANDOC = None


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def page(name):
    """As a reader sees it, without what makes words bold."""
    return re.sub(".\b", "", output_of(MANDOC, "-Tutf8", "-Owidth=100", BUILD / "man" / name))


def section(text, title):
    """The lines below a heading, up to the next one that is as deep."""
    depth = len(title) - len(title.lstrip())
    return re.search(rf"^{title}$\n(.*?)(?=^ {{0,{depth}}}\S|\Z)", text, re.M | re.S)[1].splitlines()


class Manual(unittest.TestCase):
    def test_the_formatter_has_nothing_to_say(self):
        pages = [BUILD / "man" / name for name in ("strata.1", "libstrata.3")]
        done = subprocess.run([MANDOC, "-Tlint", "-Wwarning", *pages], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_every_command_and_its_options_are_there(self):
        strata, text = BUILD / "bin/strata", page("strata.1")
        commands = re.findall(r"^  (\w+)  ", output_of(strata, "--help").split("Subcommands:")[1], re.M)
        self.assertGreater(len(commands), 5)
        for command in commands:
            about = section(text, f"   strata {command}")
            options = re.findall(r"^  (-[\w,-]+(?: \S+)?)  ", output_of(strata, command, "--help"), re.M)
            self.assertIn("-h,--help", options)
            for option in options:
                self.assertIn("     " + option.replace(",-", ", -"), about, command)

    def test_every_function_of_the_malloc_is_there(self):
        header, text = (ROOT / "include/strata/malloc.h").read_text(), page("libstrata.3")
        functions = set(re.findall(r"\b(strata_\w+)\(", re.sub("//.*", "", header)))
        self.assertGreater(len(functions), 10)
        for function in functions:
            self.assertIn(f"     {function}(", {line[:line.find("(") + 1] for line in section(text, "SYNOPSIS")})
            self.assertIn(f"     {function}()", section(text, "   Functions"))

    def test_every_option_of_the_library_is_there(self):
        table = (ROOT / "docs/options.md").read_text()
        about = section(page("libstrata.3"), "ENVIRONMENT")
        rows = re.findall(r"^\| `(STRATA_\w+)` \|", table, re.M)
        self.assertGreater(len(rows), 10)
        self.assertEqual(rows, [line.strip() for line in about if re.match(r"     STRATA_\w+$", line)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--mandoc", required=True)
    arguments, rest = parser.parse_known_args()
    ROOT, BUILD, MANDOC = arguments.source.resolve(), arguments.build.resolve(), arguments.mandoc
    unittest.main(argv=[__file__, *rest])
