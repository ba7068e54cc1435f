#!/usr/bin/env python3
"""Tests tools/check_includes on a checkout of its own: it finds what a file includes and does not use, and nothing
else."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[1] / "tools" / "check_includes"


class CheckIncludes(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.root)
        for folder in ("tools", "src/room", "include/strata", "build"):
            (self.root / folder).mkdir(parents=True)
        shutil.copy(TOOL, self.root / "tools")
        self.write("include/strata/shelf.hpp", "#pragma once\nnamespace strata {\nstruct Shelf {};\n}\n")
        self.write("src/room/key.h", "#pragma once\n#include <cstddef>\nstd::size_t key();\n")
        self.write("src/room/door.h", "#pragma once\n#include \"room/key.h\"\nint open(std::size_t with = key());\n")
        self.write("src/room/door.cpp", "#include \"room/door.h\"\nint open(std::size_t) { return 0; }\n")

    def write(self, name, text):
        (self.root / name).write_text(text)

    def check(self, *names):
        sources = sorted((self.root / "src").glob("*/*.cpp"))
        (self.root / "build/compile_commands.json").write_text(json.dumps(
            [{"directory": str(self.root / "build"), "file": str(source),
              "command": f"c++ -I{self.root}/src -I{self.root}/include -std=c++20 -DNDEBUG -O2 -c {source}"}
             for source in sources]))
        done = subprocess.run([sys.executable, self.root / "tools/check_includes", self.root / "build", *names],
                              capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
        return done.returncode, done.stdout + done.stderr

    def test_passes_what_is_used(self):
        self.assertEqual(self.check(), (0, "3 files, nothing found\n"))

    def test_names_a_header_of_the_project_that_a_source_does_not_use(self):
        self.write("src/room/door.cpp",
                   "#include \"room/door.h\"\n#include <strata/shelf.hpp>\nint open(std::size_t) { return 0; }\n")
        self.assertEqual(self.check(),
                         (1, "src/room/door.cpp: includes <strata/shelf.hpp> and does not use it\n"))

    def test_names_a_header_that_a_header_does_not_use(self):
        self.write("src/room/key.h", "#pragma once\n#include <cstddef>\n#include <vector>\nstd::size_t key();\n")
        self.assertEqual(self.check(), (1, "src/room/key.h: includes <vector> and does not use it\n"))

    def test_leaves_what_is_kept_for_a_reason(self):
        self.write("src/room/door.cpp",
                   "#include \"room/door.h\"\n#include <strata/shelf.hpp>  // IWYU pragma: keep (a reason)\n"
                   "int open(std::size_t) { return 0; }\n")
        self.assertEqual(self.check()[0], 0)

    def test_sees_the_uses_of_builds_without_ndebug(self):
        self.write("src/room/door.cpp",
                   "#include \"room/door.h\"\n#include <strata/shelf.hpp>\nint open(std::size_t) {\n#ifndef NDEBUG\n"
                   "  strata::Shelf shelf;\n  (void)shelf;\n#endif\n  return 0;\n}\n")
        self.assertEqual(self.check()[0], 0)

    def test_accuses_a_header_only_where_all_its_readers_agree(self):
        self.write("src/room/key.h", "#pragma once\n#include <cstddef>\n#include <strata/shelf.hpp>\n"
                   "std::size_t key();\n#ifdef NEEDS_SHELF\ninline strata::Shelf shelf() { return {}; }\n#endif\n")
        self.write("src/room/lock.cpp", "#define NEEDS_SHELF\n#include \"room/key.h\"\n"
                   "std::size_t lock() { return sizeof(shelf()) + key(); }\n")
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_a_use_beside_the_definition_needs_the_header(self):
        self.write("src/room/key.cpp", "#include \"room/key.h\"\nstd::size_t key() { return 1; }\n")
        self.write("src/room/lock.cpp", "#include \"room/key.h\"\n#include \"room/door.h\"\n"
                   "unsigned long lock() { return key(); }\n")
        self.assertEqual(self.check(), (1, "src/room/lock.cpp: includes \"room/door.h\" and does not use it\n"))

    def test_refuses_what_it_cannot_read(self):
        self.write("src/room/door.cpp", "#include \"room/nothing.h\"\n")
        status, said = self.check()
        self.assertEqual(status, 1)
        self.assertIn("refuses", said)

    def test_names_what_is_touched_without_its_lock(self):
        self.write("src/room/door.cpp", "#include \"room/door.h\"\nstruct __attribute__((capability(\"lock\"))) Lock {};\n"
                   "Lock lock;\nint keys __attribute__((guarded_by(lock)));\nint open(std::size_t) { return keys; }\n")
        status, said = self.check()
        self.assertEqual(status, 1)
        self.assertIn("reading variable 'keys' requires holding lock 'lock'", said)

    def test_reads_only_the_sources_that_are_named(self):
        self.write("src/room/lock.cpp", "#include <strata/shelf.hpp>\n")
        self.assertEqual(self.check(self.root / "src/room/door.cpp")[0], 0)


if __name__ == "__main__":
    unittest.main()
