#!/usr/bin/env python3
"""What the documents name exists: links and their anchors, files, programs of a build, commands, options.

usage: documents_test.py --source DIR --build DIR --compiler PROGRAM
"""
import argparse
import pathlib
import re
import subprocess
import unittest

ROOT = BUILD = COMPILER = None
# A path in backticks that begins with one of these is a file or folder of the checkout.
FOLDERS = "bindings|cli|cmake|demo|docs|examples|include|packaging|scripts|src|tests|tools"


def documents():
    return sorted(p for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md")]
                  if p.name != "CHANGELOG.md")


def named(document):
    return document.relative_to(ROOT)


def anchors_of(document):
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def commands(document):
    """Each command line in a code block: continued lines joined, comments cut off."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", document.read_text(), re.M | re.S):
        if language in ("", "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                yield line.split(" #")[0].strip()


def strata(*arguments):
    done = subprocess.run([BUILD / "bin" / "strata", *arguments], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def options_of(subcommand):
    """Those of its help; those of the scenarios as well for `bench`; none if there is no such command."""
    said = strata(subcommand, "--help")
    if f"Usage: strata {subcommand}" not in said:
        return set()
    if subcommand == "bench":
        said += strata("bench", "list", *scenarios())
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", said))


def scenarios():
    return re.findall(r"^  ([\w-]+)", strata("bench", "list").split("\n\n")[0], re.M)


class Documents(unittest.TestCase):
    def expect_none(self, wrong):
        self.assertEqual([], sorted(set(wrong)), "\n" + "\n".join(sorted(set(wrong))))

    def test_every_link_leads_somewhere(self):
        wrong = []
        for document in documents():
            for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
                if re.match(r"\w+:", target):
                    continue
                path, _, anchor = target.partition("#")
                there = (document.parent / path) if path else document
                if not there.exists():
                    wrong.append(f"{named(document)}: {target} does not exist")
                elif anchor and anchor not in anchors_of(there):
                    wrong.append(f"{named(document)}: {target}: there is no such heading")
        self.expect_none(wrong)

    def test_what_is_installed_links_to_nothing_that_is_not(self):
        wrong = []
        for document in sorted(ROOT.glob("docs/**/*.md")):
            for target in re.findall(r"\]\(([^)\s:#]+)[^)]*\)", document.read_text()):
                if not (document.parent / target).resolve().is_relative_to((ROOT / "docs").resolve()):
                    wrong.append(f"{named(document)}: {target} is not in docs; name it in backticks")
        self.expect_none(wrong)

    def test_every_file_that_is_named_exists(self):
        wrong = []
        for document in documents():
            for path in re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", document.read_text()):
                if not (ROOT / path).exists() and not (document.parent / path).exists():
                    wrong.append(f"{named(document)}: {path} does not exist")
        self.expect_none(wrong)

    def test_every_program_of_the_build_is_one_that_it_makes(self):
        if not (BUILD / "build.ninja").is_file():
            self.skipTest("only Ninja lists what it makes")
        said = subprocess.run(["ninja", "-C", BUILD, "-t", "targets", "all"], capture_output=True, text=True, check=True)
        made = {line.split(":")[0] for line in said.stdout.splitlines()}
        wrong = []
        for document in documents():
            for path in re.findall(r"build/release/([\w/.-]*[\w])", document.read_text()):
                if path not in made and not (BUILD / path).is_dir():
                    wrong.append(f"{named(document)}: build/release/{path} is made by no target")
        self.expect_none(wrong)

    def test_every_command_and_option_is_understood(self):
        known, wrong = {}, []
        for document in documents():
            for line in commands(document):
                words = line.split(" -- ")[0].split()
                if words[:1] != ["strata"] or not words[1:] or not words[1].isalpha():  # a table's row
                    continue
                subcommand = words[1]
                if subcommand not in known:
                    known[subcommand] = options_of(subcommand)
                options = known[subcommand]
                if not options:
                    wrong.append(f"{named(document)}: strata {subcommand}: there is no such command")
                wrong += [f"{named(document)}: strata {subcommand} has no option {word}" for word in words[2:]
                          if options and re.match(r"--?[a-z]", word) and word.split("=")[0] not in options]
        self.expect_none(wrong)

    def test_every_scenario_has_a_row(self):
        rows = re.findall(r"^\| `([\w-]+)` \|", (ROOT / "docs" / "scenarios.md").read_text(), re.M)
        self.assertTrue(rows)
        self.assertEqual(sorted(scenarios()), sorted(rows))

    def test_every_metric_of_a_load_is_described(self):
        code = "".join(path.read_text() for path in (ROOT / "cli" / "cell").glob("**/*.cpp"))
        metrics = set(re.findall(r"\bmetric\(\"(\w+)\"", code))
        self.assertIn("back_share", metrics)
        rows = re.findall(r"^\| (.*?) \|", (ROOT / "docs" / "results.md").read_text(), re.M)
        self.expect_none(metrics - set(re.findall(r"`(\w+)`", " ".join(rows))))

    def test_every_program_in_cpp_compiles_as_cpp17(self):
        programs = [(document, block) for document in documents()
                    for block in re.findall(r"^```cpp\n(.*?)^```", document.read_text(), re.M | re.S)]
        self.assertTrue(programs)
        for document, program in programs:
            done = subprocess.run([COMPILER, "-std=c++17", "-fsyntax-only", "-I", ROOT / "include", "-x", "c++", "-"],
                                  input=program, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, f"{named(document)}:\n{done.stderr}")

    def test_every_variable_is_an_option_of_the_library(self):
        table = (ROOT / "docs" / "options.md").read_text()
        build = (ROOT / "CMakeLists.txt").read_text() + (ROOT / "scripts" / "bootstrap").read_text()
        wrong = []
        for document in documents():
            for name in re.findall(r"`(STRATA_[A-Z_]+)\b", document.read_text()):
                if f"`{name}`" not in table and name not in build:
                    wrong.append(f"{named(document)}: {name} is no option")
        self.expect_none(wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--compiler", required=True)
    arguments, rest = parser.parse_known_args()
    ROOT, BUILD, COMPILER = arguments.source.resolve(), arguments.build.resolve(), arguments.compiler
    unittest.main(argv=[__file__, *rest])
