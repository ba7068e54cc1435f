#!/usr/bin/env python3
"""Builds and tests the Rust crate: on the archives of a build, and as a stranger's program on an installed tree.

usage: rust_test.py --cargo PROGRAM --build DIR [unittest arguments]
"""
import argparse
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

CRATE = pathlib.Path(__file__).resolve().parent / "rust"
HEADERS = CRATE.parents[1] / "include/strata"
CARGO = BUILD = None

STRANGER = """
#[global_allocator]
static GLOBAL: strata::GlobalHeap = strata::GlobalHeap::new(strata::Options::new().name("stranger"));

fn main() {
    let words: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    assert!(GLOBAL.owns(words[999].as_ptr()));
    println!("{}", words[999]);
}
"""
# The types of C in Rust.
TYPES = {"const char*": "*const c_char", "char*": "*mut c_char", "size_t": "usize", "uint8_t": "u8", "uint32_t": "u32",
         "uint64_t": "u64", "bool": "bool", "int": "c_int", "void*": "*mut c_void", "const void*": "*const c_void",
         "strata_heap*": "*mut strata_heap", "const strata_heap*": "*const strata_heap",
         "const strata_heap_options*": "*const strata_heap_options",
         "strata_heap_statistics*": "*mut strata_heap_statistics", "const char**": "*mut *const c_char"}


def cargo(command, crate, target, **environment):
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("STRATA_", "LIBSTRATA_"))}
    return subprocess.run([CARGO, *command, "--offline", "--manifest-path", crate / "Cargo.toml", "--target-dir", target],
                          env={**plain, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def structs_of_c():
    """Name → its fields, in order, as Rust would write them."""
    text = re.sub(r"//.*", "", (HEADERS / "heap.h").read_text())
    return {name: [(field, TYPES.get(kind.strip())) for kind, field in re.findall(r"([\w* ]+?)\s*\b(\w+);", body)]
            for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\}", text, re.S)}


def functions_of_c():
    """Name → the types of its arguments and of its result."""
    found = {}
    for header in ("heap.h", "malloc.h"):
        text = re.sub(r"//.*|#.*", "", (HEADERS / header).read_text())
        text = re.sub(r"\bSTRATA_(?:API|(?:HEAP_)?MALLOC_LIKE)\b", "", text)
        for result, name, arguments in re.findall(r"([\w* ]+?)\b(strata_\w+)\(([^)]*)\)", " ".join(text.split())):
            kinds = [] if arguments == "void" else [re.sub(r"\s*\w+$", "", part.strip()) for part in arguments.split(",")]
            found[name] = ([TYPES.get(kind) for kind in kinds], TYPES.get(result.strip()))
    return found


class Crate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="strata_rust.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_its_own_tests_pass_on_the_archives_of_a_build(self):
        done = cargo(["test", "--locked", "--all-features"], CRATE, BUILD / "bindings/rust", LIBSTRATA_DIR=str(BUILD / "lib"))
        self.assertEqual(done.returncode, 0, done.stdout)
        passed = sum(map(int, re.findall(r"(\d+) passed", done.stdout)))
        self.assertGreaterEqual(passed, 19, done.stdout)

    def test_its_malloc_passes_under_every_level_of_checks(self):
        for checks in ("frees", "full"):
            done = cargo(["test", "--locked", "--all-features", "--test", "global_malloc"], CRATE, BUILD / "bindings/rust",
                         LIBSTRATA_DIR=str(BUILD / "lib"), STRATA_CHECKS=checks)
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_its_example_shows_what_it_says(self):
        done = cargo(["run", "--locked", "--example", "tenants"], CRATE, BUILD / "bindings/rust",
                     LIBSTRATA_DIR=str(BUILD / "lib"))
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_stranger_builds_on_an_installed_tree(self):
        subprocess.run(["cmake", "--install", BUILD, "--prefix", self.folder / "first"], check=True,
                       stdout=subprocess.DEVNULL)
        installed = (self.folder / "first").rename(self.folder / "moved elsewhere")
        stranger = self.folder / "stranger"
        (stranger / "src").mkdir(parents=True)
        (stranger / "src/main.rs").write_text(STRANGER)
        crate = next(installed.rglob("strata/rust/Cargo.toml")).parent
        (stranger / "Cargo.toml").write_text('[package]\nname = "stranger"\nversion = "1.0.0"\nedition = "2021"\n'
                                             f'[dependencies]\nstrata = {{ path = "{crate}" }}\n')
        search = next(installed.rglob("strata-heap.pc")).parent
        done = cargo(["run"], stranger, self.folder / "target", PKG_CONFIG_PATH=str(search))
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "999"), done.stdout)

    def test_without_a_library_it_says_what_to_do(self):
        for environment in ({"LIBSTRATA_DIR": "/nowhere"},
                            {"PKG_CONFIG_PATH": "/nowhere", "PKG_CONFIG_LIBDIR": "/nowhere"}):
            done = cargo(["build", "--locked"], CRATE, self.folder / "target", **environment)
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stdout, "/nowhere/libstrata_heap.a does not exist; build or install Strata first|"
                             "Strata's libraries are not found: .*let LIBSTRATA_DIR name")
            self.assertNotIn("panicked", done.stdout)

    def test_a_relative_folder_of_the_library_is_refused(self):
        for folder in ("lib", ""):
            done = cargo(["build", "--locked"], CRATE, self.folder / "target", LIBSTRATA_DIR=folder)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"LIBSTRATA_DIR is '{folder}', which cargo would look for in the crate's folder; give a path",
                          done.stdout)

    def test_it_declares_what_the_headers_declare(self):
        text = re.sub(r"//.*", "", (CRATE / "src/sys.rs").read_text())
        structs, functions = structs_of_c(), functions_of_c()
        self.assertIn("strata_heap_options", structs)
        del structs["strata_page_source"]  # the crate's heaps lie where the kernel maps them
        for name, fields in structs.items():
            body = re.search(rf"pub struct {name} \{{(.*?)\}}", text, re.S)[1]
            ours = [tuple(field) for field in re.findall(r"pub (\w+): ([^,]+),", body)]
            if ours[-1][0] == "later":  # room for further fields of C, all zero
                ours.pop()
                fields = fields[:len(ours)]
            self.assertEqual(ours, fields, name)
        declared = re.findall(r"pub fn (\w+)\((.*?)\)(?: -> ([^;]+))?;", text, re.S)
        self.assertGreater(len(declared), 15)
        for name, arguments, result in declared:
            kinds = [kind.strip() for kind in re.findall(r"\w+: ([^,]+)", arguments)]
            self.assertEqual((kinds, result or None), functions.get(name), name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cargo", required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    options, rest = parser.parse_known_args()
    CARGO, BUILD = options.cargo, options.build.resolve()
    unittest.main(argv=[__file__, *rest])
