#!/usr/bin/env python3
"""The Conan recipe and the vcpkg port, without their tools: what they export is enough to configure the project, the
options that they set exist, and what they install serves a consumer. And what others configure the library with.

usage: packaging_test.py --source DIR --build DIR [unittest arguments]
"""
import argparse
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import types
import unittest

import conan_stand_in

SOURCE = BUILD = None
HERE = pathlib.Path(__file__).resolve().parent


def run(*command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{done.args}\n{done.stdout}\nended with status {done.returncode}")
    return done.stdout


def version():
    return re.search(r"^  VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text(), re.M)[1]


def options():
    return re.findall(r"^option\((\w+)", (SOURCE / "CMakeLists.txt").read_text(), re.M)


class Packaging(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="strata_packaging.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def recipe(self):
        conan_stand_in.put_into_place()
        path = SOURCE / "packaging/conan/conanfile.py"
        spec = importlib.util.spec_from_file_location("recipe", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        recipe = module.StrataRecipe()
        recipe.recipe_folder = str(path.parent)
        recipe.source_folder = recipe.export_sources_folder = str(self.folder / "sources")
        recipe.build_folder, recipe.package_folder = str(BUILD), str(self.folder / "package")
        recipe.set_version()
        return recipe

    def expect_a_consumer_is_served(self, prefix):
        """The test package of Conan, which is a consumer like any other."""
        run("cmake", "-G", "Ninja", "-S", SOURCE / "packaging/conan/test_package", "-B", self.folder / "consumer",
            f"-DCMAKE_PREFIX_PATH={prefix}")
        run("cmake", "--build", self.folder / "consumer")
        self.assertEqual(run(self.folder / "consumer/program"), "consumer ok\n")

    def test_what_conan_exports_is_enough_to_configure_the_project(self):
        recipe = self.recipe()
        recipe.export_sources()
        recipe.generate()
        self.assertEqual(recipe.version, version())
        chosen = {name for name in recipe.cache_variables if name.startswith("STRATA_")}
        self.assertTrue(chosen and chosen <= set(options()), chosen)
        said = run("cmake", "-S", recipe.source_folder, "-B", self.folder / "configured",
                   *(f"-D{name}={value}" for name, value in recipe.cache_variables.items()))
        self.assertIn("Build files have been written", said)
        headers = [path.relative_to(SOURCE) for path in SOURCE.glob("include/strata/**/*.h*")]
        self.assertEqual([name for name in headers if not (self.folder / "sources" / name).is_file()], [])

    def test_conan_exports_nothing_that_the_rust_crate_was_built_to(self):
        recipe = self.recipe()
        for name in ("bindings/rust/target/debug/crate", "bindings/rust/src/lib.rs"):
            (self.folder / "checkout" / name).parent.mkdir(parents=True)
            (self.folder / "checkout" / name).touch()
        recipe.recipe_folder = str(self.folder / "checkout/packaging/conan")
        pathlib.Path(recipe.recipe_folder).mkdir(parents=True)
        recipe.export_sources()
        exported = [path for path in (self.folder / "sources").rglob("*") if path.is_file()]
        self.assertEqual([path.name for path in exported], ["lib.rs"])

    def test_the_conan_package_serves_a_consumer(self):
        recipe = self.recipe()
        recipe.export_sources()
        recipe.package()
        properties = {}
        recipe.cpp_info = types.SimpleNamespace(set_property=properties.__setitem__)
        recipe.package_info()
        # Conan writes no files of its own over those that the package has.
        self.assertEqual(properties, {"cmake_find_mode": "none", "pkg_config_name": "none"})
        package = pathlib.Path(recipe.package_folder)
        self.assertTrue((package / "licenses/LICENSE").is_file())
        for folder in recipe.cpp_info.builddirs:
            self.assertTrue((package / folder / "strataConfig.cmake").is_file(), folder)
        self.expect_a_consumer_is_served(package)

    def test_conan_refuses_other_systems(self):
        recipe = self.recipe()
        recipe.settings = types.SimpleNamespace(os="Windows", arch="x86_64")
        with self.assertRaises(conan_stand_in.ConanInvalidConfiguration):
            recipe.validate()
        recipe.settings = types.SimpleNamespace(os="Linux", arch="armv8")
        recipe.validate()

    def configure_the_library(self, *settings):
        run("cmake", "-S", SOURCE, "-B", self.folder / "configured", *settings,
            *(f"-DSTRATA_BUILD_{part}=OFF" for part in ("CLI", "TESTS", "BENCHMARKS", "EXAMPLES")))

    def test_debian_gets_no_package_of_a_command_that_is_not_built(self):
        self.configure_the_library()
        said = (self.folder / "configured/CPackConfig.cmake").read_text()
        self.assertIn('set(CPACK_COMPONENTS_ALL "library;development")', said)

    def test_a_users_build_does_not_fail_for_a_warning(self):
        self.configure_the_library("--preset", "release")
        self.assertIn("STRATA_WARNINGS_AS_ERRORS:BOOL=OFF\n", (self.folder / "configured/CMakeCache.txt").read_text())

    @unittest.skipUnless(shutil.which("ld.gold"), "there is no gold")
    def test_the_layout_is_left_to_a_linker_that_has_none(self):
        for flags, takes_it in (("", "1"), ("-fuse-ld=gold", "")):
            self.configure_the_library("--fresh", f"-DCMAKE_SHARED_LINKER_FLAGS={flags}")
            self.assertIn(f"STRATA_LINKER_TAKES_LAYOUT:INTERNAL={takes_it}\n",
                          (self.folder / "configured/CMakeCache.txt").read_text())

    def test_the_vcpkg_manifest_has_our_version(self):
        manifest = json.loads((SOURCE / "packaging/vcpkg/strata/vcpkg.json").read_text())
        self.assertEqual((manifest["name"], manifest["version"]), ("strata", version()))

    def test_the_vcpkg_port_installs_what_serves_a_consumer(self):
        package = self.folder / "packages/strata"
        run("cmake", f"-DBUILD={BUILD}", f"-DCURRENT_PACKAGES_DIR={package}", f"-DOPTIONS={';'.join(options())}",
            f"-DPORTFILE={SOURCE / 'packaging/vcpkg/strata/portfile.cmake'}", "-P", HERE / "vcpkg_stand_in.cmake")
        self.assertTrue((package / "share/strata/copyright").is_file())
        self.assertFalse((package / "debug/include").exists())
        self.expect_a_consumer_is_served(package)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    arguments, rest = parser.parse_known_args()
    SOURCE, BUILD = arguments.source.resolve(), arguments.build.resolve()
    unittest.main(argv=[__file__, *rest])
