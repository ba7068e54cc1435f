#!/usr/bin/env python3
"""tools/check_house on small trees: it is silent about a good one and names each kind of breach."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parent.parent / "tools" / "check_house"

GOOD = {
    "src/README.md": "| layer | may include | what it is |\n|---|---|---|\n| os | | the kernel |\n"
    "| base | os | locks |\n| span | os, base | pages |\n| pool | base | blocks |\n"
    "| block | pool | equal blocks |\n\n| public headers | room |\n|---|---|\n| arena.hpp | pool |\n| block.hpp | block |\n",
    "src/CMakeLists.txt": "add_subdirectory(os)\n",
    "src/block/block_test.cpp": "#include <strata/block.hpp>\n",
    "include/strata/block.hpp": "#pragma once\n#include <strata/arena.hpp>\n",
    "src/os/CMakeLists.txt": "strata_layer(os\n  SOURCES pages.cpp)\n",
    "src/os/pages.h": "#pragma once\n#include <cstddef>\n",
    "src/os/pages.cpp": '#include "os/pages.h"\n#include <sys/mman.h>\n',
    "src/os/pages_test.cpp": '#include "os/pages.h"\n#include "span/span.h"\n#include <gtest/gtest.h>\n',
    "src/base/lock.h": '#pragma once\n#include <atomic>\n#include "os/pages.h"\n',
    "src/span/CMakeLists.txt": "strata_layer(\n  span\n  DEPENDS os base\n  SOURCES span.cpp\n  TESTS span_test.cpp)\n",
    "src/span/span.h": '#pragma once\n#include "base/lock.h"\n#include <strata/arena.hpp>\n',
    "src/span/span.cpp": '#include "span/span.h"\n#include "os/pages.h"\n',
    "src/pool/arena.cpp": '#include <strata/arena.hpp>\n#include "base/lock.h"\n',
    "src/pool/fake_pool.h": '#pragma once\n#include <sys/mman.h>\n#include "os/pages.h"\n',
    "include/strata/arena.hpp": "#pragma once\n#include <strata/detail/bits.hpp>\n#include <cstddef>\n",
    "include/strata/detail/bits.hpp": "#pragma once\n#include <cstdint>\n",
    "cli/README.md": "| folder | may include | what it is |\n|---|---|---|\n| shared | | both |\n"
    "| cell/pools | toolkit | pools |\n| cell | shared, cell/pools | measured |\n| strata/input | | words |\n"
    "| strata | shared, strata/input | main |\n",
    "cli/shared/board.h": "#pragma once\n",
    "cli/cell/pools/pool.h": "#pragma once\n#include <strata/arena.hpp>\n",
    "cli/cell/main.cpp": '#include "pools/pool.h"\n#include "shared/board.h"\n',
    "cli/strata/input/words.h": "#pragma once\n",
    "cli/strata/input/words.cpp": '#include "input/words.h"\n',
    "cli/strata/input/words_test.cpp": '#include "input/words.h"\n#include "main.h"\n',
    "cli/strata/main.h": "#pragma once\n",
    "cli/strata/main.cpp": '#include "main.h"\n#include <sys/wait.h>\n#include "input/words.h"\n',
}


class CheckHouse(unittest.TestCase):
    def breaches_of(self, files):
        """What the tool prints about a tree of these files."""
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            done = subprocess.run([sys.executable, TOOL, root], capture_output=True, text=True)
            self.assertEqual(done.stderr, "")
            lines = done.stdout.splitlines()
            self.assertEqual(done.returncode, 1 if lines else 0)
            return lines

    def change(self, path, text, sentence):
        self.assertEqual(self.breaches_of({**GOOD, path: text}), [sentence])

    def append(self, path, text, sentence):
        self.change(path, GOOD.get(path, "") + text, sentence)

    def test_is_silent_about_a_good_tree(self):
        self.assertEqual(self.breaches_of(GOOD), [])

    def test_a_folder_without_a_row(self):
        self.change("src/util/x.h", "#pragma once\n", "src/util: a folder that src/README.md does not list")

    def test_a_row_that_names_no_layer(self):
        self.append("src/README.md", "| pool | base, magic | blocks |\n",
                    "src/README.md: pool may include magic, which is no layer")

    def test_a_row_that_points_upwards(self):
        self.change("src/README.md", GOOD["src/README.md"].replace("| base | os |", "| base | os, span |"),
                    "src/README.md: base includes span, which does not stand below it")

    def test_a_row_that_names_itself(self):
        self.change("src/README.md", GOOD["src/README.md"].replace("| base | os |", "| base | os, base |"),
                    "src/README.md: base includes base, which does not stand below it")

    def test_a_table_that_is_gone(self):
        self.assertIn("src/README.md: no table of layers", self.breaches_of({**GOOD, "src/README.md": "# Law\n"}))

    def test_an_include_that_the_law_does_not_list(self):
        self.append("src/pool/arena.cpp", '#include "os/pages.h"\n',
                    'src/pool/arena.cpp: pool may not include "os/pages.h" (src/README.md)')

    def test_an_include_upwards(self):
        self.append("src/base/lock.h", '#  include   "span/span.h"\n',
                    'src/base/lock.h: base may not include "span/span.h" (src/README.md)')

    def test_an_include_beside_the_path_from_src(self):
        self.append("src/span/span.cpp", '#include "detail.h"\n',
                    'src/span/span.cpp: includes "detail.h"; write the path from src/, as in "base/fatal.h"')

    def test_a_system_header_outside_os(self):
        self.append("src/base/lock.h", "#include <pthread.h>\n",
                    "src/base/lock.h: system header <pthread.h> outside os")

    def test_a_header_of_the_c_library_outside_os(self):
        self.append("src/base/lock.h", "#include <csignal>\n", "src/base/lock.h: system header <csignal> outside os")

    def test_a_source_whose_own_header_is_not_first(self):
        self.change("src/span/span.cpp", '#include "os/pages.h"\n#include "span/span.h"\n',
                    "src/span/span.cpp: its own header span/span.h comes first")

    def test_a_source_of_a_public_class_whose_header_is_not_first(self):
        self.change("src/pool/arena.cpp", '#include "base/lock.h"\n#include <strata/arena.hpp>\n',
                    "src/pool/arena.cpp: its own header strata/arena.hpp comes first")

    def test_a_row_without_a_folder(self):
        self.append("src/README.md", "| heap | base | sizes |\n",
                    "src/README.md: heap is no folder of src/ with code in it")

    def test_a_folder_of_a_program_without_a_row(self):
        self.change("cli/strata/util/x.h", "#pragma once\n",
                    "cli/strata/util: a folder that cli/README.md does not list")

    def test_a_row_of_a_program_that_points_upwards(self):
        self.change("cli/README.md", GOOD["cli/README.md"].replace("| strata/input | |", "| strata/input | strata |"),
                    "cli/README.md: strata/input includes strata, which does not stand below it")

    def test_a_program_that_includes_the_other(self):
        self.append("cli/strata/input/words.cpp", '#include "cell/pools/pool.h"\n',
                    'cli/strata/input/words.cpp: strata/input may not include "cell/pools/pool.h" (cli/README.md)')

    def test_a_folder_of_a_program_that_includes_upwards(self):
        self.append("cli/strata/input/words.h", '#include "main.h"\n',
                    'cli/strata/input/words.h: strata/input may not include "main.h" (cli/README.md)')

    def test_a_path_that_no_file_of_the_program_has(self):
        self.append("cli/strata/input/words.cpp", '#include "words.h"\n',
                    'cli/strata/input/words.cpp: includes "words.h"; write the path from cli/strata/ or cli/')

    def test_a_program_that_includes_a_layer(self):
        self.append("cli/cell/main.cpp", '#include "base/lock.h"\n',
                    'cli/cell/main.cpp: includes "base/lock.h"; write the path from cli/cell/ or cli/')

    def test_a_folder_that_includes_the_toolkit_and_may_not(self):
        self.append("cli/strata/main.cpp", "#include <strata/arena.hpp>\n",
                    "cli/strata/main.cpp: strata may not include <strata/arena.hpp> (cli/README.md)")

    def test_a_source_of_a_program_whose_own_header_is_not_first(self):
        self.change("cli/strata/main.cpp", '#include "input/words.h"\n#include "main.h"\n',
                    "cli/strata/main.cpp: its own header comes first")

    def test_a_header_without_pragma_once(self):
        self.change("src/base/lock.h", "#include <atomic>\n", "src/base/lock.h: no #pragma once")

    def test_a_public_header_without_pragma_once(self):
        self.change("include/strata/detail/bits.hpp", "#include <cstdint>\n",
                    "include/strata/detail/bits.hpp: no #pragma once")

    def test_a_public_header_that_includes_the_system(self):
        self.append("include/strata/arena.hpp", "#include <unistd.h>\n",
                    "include/strata/arena.hpp: public headers include only <strata/...> and the standard library, "
                    "not unistd.h")

    def test_a_public_header_that_includes_a_room(self):
        self.append("include/strata/arena.hpp", '#include "base/lock.h"\n',
                    "include/strata/arena.hpp: public headers include only <strata/...> and the standard library, "
                    "not base/lock.h")

    def test_a_public_header_without_a_room(self):
        self.change("include/strata/lost.hpp", "#pragma once\n",
                    "include/strata/lost.hpp: src/README.md gives it no room of src/")

    def test_a_public_header_in_a_room_that_does_not_exist(self):
        self.change("src/README.md", GOOD["src/README.md"].replace("| arena.hpp | pool |", "| arena.hpp | garage |"),
                    "include/strata/arena.hpp: src/README.md gives it no room of src/")

    def test_a_public_header_with_two_rooms(self):
        self.append("src/README.md", "| arena.hpp | span |\n",
                    "include/strata/arena.hpp: src/README.md gives it two rooms")

    def test_a_row_for_a_public_header_that_is_gone(self):
        self.append("src/README.md", "| gone.hpp | span |\n", "src/README.md: gone.hpp is no public header")

    def test_a_public_header_that_includes_one_of_a_room_above(self):
        self.append("include/strata/arena.hpp", "#include <strata/block.hpp>\n",
                    "include/strata/arena.hpp: pool may not include <strata/block.hpp>, which is of block (src/README.md)")

    def test_a_public_header_that_the_umbrella_leaves_out(self):
        table = GOOD["src/README.md"] + "| strata.hpp | block |\n"
        umbrella = "#pragma once\n#include <strata/arena.hpp>\n"
        self.assertEqual(self.breaches_of({**GOOD, "src/README.md": table, "include/strata/strata.hpp": umbrella}),
                         ["include/strata/strata.hpp: does not include <strata/block.hpp>"])

    def test_a_room_of_tests_alone_without_a_public_header(self):
        self.assertIn("src/block: a room without code and without a public header", self.breaches_of(
            {**GOOD, "src/README.md": GOOD["src/README.md"].replace("| block.hpp | block |\n", "")}))

    def test_a_public_header_whose_comment_needs_cpp20(self):
        self.append("include/strata/arena.hpp", "///     constinit strata::Arena arena;\n",
                    "include/strata/arena.hpp:4: constinit is C++20; a program in C++17 may use public headers")

    def test_a_layer_that_depends_on_more_than_its_row(self):
        self.change("src/pool/CMakeLists.txt", "strata_layer(pool\n  DEPENDS os base # both\n  SOURCES arena.cpp)\n",
                    "src/pool/CMakeLists.txt: pool DEPENDS on os, which src/README.md does not let it include")

    def test_a_layer_declared_elsewhere(self):
        self.append("src/os/CMakeLists.txt", "strata_layer(base)\n",
                    "src/os/CMakeLists.txt: declares the layer base outside its folder")

    def test_a_file_with_two_subjects(self):
        for path in ("src/base/lock.h", "include/strata/arena.hpp", "cli/strata/main.cpp"):
            with self.subTest(path):
                filled = GOOD[path] + "\n" * (450 - GOOD[path].count("\n"))
                self.assertEqual(self.breaches_of({**GOOD, path: filled}), [])
                self.change(path, filled + "\n", f"{path}: 451 lines; a file over 450 has two subjects")

    def test_a_long_test_is_no_breach(self):
        path = "src/os/pages_test.cpp"
        self.assertEqual(self.breaches_of({**GOOD, path: GOOD[path] + "\n" * 500}), [])

    def test_a_comment_that_promises_work(self):
        self.append("src/span/span.cpp", "// TO" "DO: the rest\n",
                    "src/span/span.cpp:3: a comment that promises work")

    def test_a_documentation_tag_in_the_middle_of_a_line(self):
        self.append("src/base/lock.h", "/// Locks it. \\cost  one exchange\nint lock();  ///< \\returns  0\n",
                    "src/base/lock.h:4: \\cost in the middle of a comment; it begins a line")
        self.append("tests/a.h", "#pragma once\n/// \\pre it is \\threads one at a time\n",
                    "tests/a.h:2: \\threads in the middle of a comment; it begins a line")
        self.append("cli/cell/help.cpp", "// Ends. \\returns  0\n",
                    "cli/cell/help.cpp:1: \\returns in the middle of a comment; it begins a line")

    def test_a_comment_that_is_too_wide(self):
        self.append("include/strata/arena.hpp", "// " + "x" * 97 + "\n// " + "ü" * 98 + "\n",
                    "include/strata/arena.hpp:5: a comment that ends at column 101; 100 is the last")

    def test_an_atomic_operation_without_its_order(self):
        self.append("src/base/lock.h", "void f() { word.fetch_add(count(1), std::memory_order_relaxed); g.load(); }\n",
                    "src/base/lock.h:4: load() without its memory order")
        self.append("src/base/lock.h", "void f() { word->compare_exchange_weak(old,\n    bits(3)); }\n",
                    "src/base/lock.h:4: compare_exchange_weak() without its memory order")


if __name__ == "__main__":
    unittest.main()
