"""Strata as a Conan package: conan create packaging/conan"""
import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

SOURCES = ("CMakeLists.txt", "LICENSE", "bindings/*", "cmake/*", "docs/*", "include/*", "src/*")


class StrataRecipe(ConanFile):
    name = "strata"
    description = "A drop-in malloc, heaps of one's own, and a shelf of specialised allocators"
    license = "MIT"
    topics = ("memory", "allocator", "malloc", "pool", "arena")
    settings = "os", "arch", "compiler", "build_type"

    @property
    def checkout(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        self.version = re.search(r"^  VERSION ([\d.]+)", load(self, os.path.join(self.checkout, "CMakeLists.txt")), re.M)[1]

    def export_sources(self):
        for pattern in SOURCES:
            copy(self, pattern, self.checkout, self.export_sources_folder, excludes="bindings/rust/target/*")

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("Strata runs on 64-bit Linux, x86-64 and ARM")
        check_min_cppstd(self, 17)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("CLI", "TESTS", "BENCHMARKS", "EXAMPLES"):
            toolchain.cache_variables[f"STRATA_BUILD_{part}"] = False
        toolchain.cache_variables["CMAKE_CXX_STANDARD"] = "20"  # that of the sources, whatever the consumer's is
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="strata_product")

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # find_package(strata) and pkg-config find the package's own files, with all of its targets and modules;
        # pkg-config where PKG_CONFIG_PATH names its lib/pkgconfig.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.set_property("pkg_config_name", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "strata")]
        self.cpp_info.libs = []
