"""What the Conan recipe calls of Conan, for a test without it: the recipe's folders are real, its build is one that
exists already, and its installation is that of CMake.
"""
import fnmatch
import pathlib
import shutil
import subprocess
import sys
import types


class ConanFile:
    pass


class ConanInvalidConfiguration(Exception):
    pass


class CMakeToolchain:
    def __init__(self, recipe):
        self.cache_variables = recipe.cache_variables = {}

    def generate(self):
        pass


class CMake:
    def __init__(self, recipe):
        self.recipe = recipe

    def install(self):
        subprocess.run(["cmake", "--install", self.recipe.build_folder, "--prefix", self.recipe.package_folder],
                       check=True, stdout=subprocess.DEVNULL)


def copy(recipe, pattern, source, destination, excludes=""):
    source = pathlib.Path(source).resolve()
    for path in source.rglob("*"):
        name = path.relative_to(source)
        is_wanted = fnmatch.fnmatch(str(name), pattern) and not fnmatch.fnmatch(str(name), excludes)
        if path.is_file() and name.parts[0] not in ("build", ".git") and is_wanted:
            target = pathlib.Path(destination) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


def put_into_place():
    modules = {
        "conan": {"ConanFile": ConanFile}, "conan.errors": {"ConanInvalidConfiguration": ConanInvalidConfiguration},
        "conan.tools": {}, "conan.tools.build": {"check_min_cppstd": lambda recipe, least: None},
        "conan.tools.cmake": {"CMake": CMake, "CMakeToolchain": CMakeToolchain, "cmake_layout": lambda recipe: None},
        "conan.tools.files": {"copy": copy, "load": lambda recipe, path: pathlib.Path(path).read_text()},
    }
    for name, members in modules.items():
        module = sys.modules[name] = types.ModuleType(name)
        vars(module).update(members)
