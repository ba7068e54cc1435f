#!/usr/bin/env python3
"""Builds and runs programs that use Strata as a stranger's project would.

usage: consumer_test.py find_package|add_subdirectory|pkg-config --source DIR --build DIR
                        --exports NAME[,NAME]

NAMEs are those after strata::. The first and the last way install the build into an empty tree and
then move the tree, so that a path which only holds on the machine of the build is found.
"""
import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# A layer's sources as one: that each stands alone, the build itself has shown.
TOGETHER = ["-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0"]
LIBRARIES_ALONE = [f"-DSTRATA_BUILD_{what}=OFF" for what in ("CLI", "TESTS", "BENCHMARKS", "EXAMPLES")]


def run(command, **keywords):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **keywords)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(map(str, command))}\n{done.stdout}\nended with status {done.returncode}")
    return done.stdout


def expect_ok(program, environment=None):
    said = run([program], env={**os.environ, **(environment or {})})
    if said != "consumer ok\n":
        sys.exit(f"{program} said {said!r}")


def expect_the_malloc(program):
    """Although nothing is called of it, and the linker drops such libraries."""
    if "[libstrata.so.0]" not in run(["readelf", "--dynamic", "--wide", program]):
        sys.exit(f"{program} has the C library's malloc")


def install(build, folder):
    run(["cmake", "--install", build, "--prefix", folder / "first"])
    (folder / "first").rename(folder / "moved")
    return folder / "moved"


def install_as_a_distribution(source, build, folder, part):
    """With the headers or the libraries elsewhere; the libraries are those of the build."""
    configured = folder / "configured"
    prefix = folder / f"distribution_with_{part}_elsewhere"
    run(["cmake", "-G", "Ninja", "-S", source, "-B", configured, f"-DCMAKE_INSTALL_PREFIX={prefix}",
         f"-DCMAKE_INSTALL_{part}={folder / part}",
         *LIBRARIES_ALONE])
    shutil.copytree(build / "lib", configured / "lib", symlinks=True, dirs_exist_ok=True)
    run(["cmake", "--install", configured])
    shutil.rmtree(configured)
    return prefix


def expect_the_name_of_the_library(source, build, folder):
    """The package file and the command name the library as it is called, with what a project adds to debug builds."""
    has_command = (build / "bin/strata").exists()
    run(["cmake", "-G", "Ninja", "-S", source, "-B", folder / "debug", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_DEBUG_POSTFIX=-debug",
         *LIBRARIES_ALONE, f"-DSTRATA_BUILD_CLI={'ON' if has_command else 'OFF'}"])
    steps = (folder / "debug/build.ninja").read_text()
    for name in (r'STRATA_LIBRARY_NAME=\"libstrata-debug.so.0\"', "libexec/libstrata-record.so:") if has_command else ():
        if name not in steps:
            sys.exit(f"{name} is not in build.ninja")
    for module, library in (("strata", "-lstrata-debug"), ("strata-heap", "-l:libstrata_heap-debug.a")):
        said = (folder / f"debug/{module}.pc").read_text()
        if f" {library} " not in said:
            sys.exit(f"{library} is not in {module}.pc:\n{said}")


def expect_documents(prefix):
    """Each document that an installed header cites is installed, too."""
    documents = next(prefix.rglob("doc/strata"))
    cited = {name for header in prefix.rglob("include/strata/**/*.h*")
             for name in re.findall(r"\bdocs/[\w./-]*\w", header.read_text())}
    missing = sorted(name for name in cited if not (documents / name).is_file())
    if missing or not cited:
        sys.exit(f"headers cite {missing or 'nothing'}, which is not under {documents}")


def expect_documents_of_its_own(folder):
    """What is installed with another project lies in a folder of its own: that project has a LICENSE, too."""
    run(["cmake", "--install", folder / "build/strata", "--prefix", folder / "within", "--component", "library"])
    found = [path.relative_to(folder / "within") for path in (folder / "within").rglob("LICENSE")]
    if found != [pathlib.Path("share/doc/strata/LICENSE")]:
        sys.exit(f"the license is {found}")


def build_with_cmake(way, folder, exports, *settings):
    run(["cmake", "-G", "Ninja", "-S", HERE / way, "-B", folder / "build", "-DCMAKE_BUILD_TYPE=Release",
         f"-DSTRATA_EXPORTS={';'.join(exports)}", *settings])
    run(["cmake", "--build", folder / "build"])
    names = [*exports, "heap_in_c", "heap_and_toolkit", "heap_beside_malloc", "heap_beside_strata_static"]
    for name in names if "heap" in exports else exports:
        expect_ok(folder / "build" / f"uses_{name}")
    if "malloc" in exports:
        expect_the_malloc(folder / "build/calls_nothing")


def build_in_c(source, folder):
    """A project without C++ and without optimisation; the path of Strata has a comma, at which -Wl ends. Clang
    accepts these flags only together with optimisation at link time, which Strata is compiled without."""
    (folder / "one, two").symlink_to(source)
    clang = ["-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY",
             "-DCMAKE_CXX_FLAGS=-flto -fsanitize=cfi -fwhole-program-vtables -fvisibility=hidden"]
    run(["cmake", "-G", "Ninja", "-S", HERE / "in_c", "-B", folder / "in_c", *TOGETHER,
         f"-DSTRATA_SOURCE={folder / 'one, two'}", *(clang if shutil.which("clang++") else [])])
    run(["cmake", "--build", folder / "in_c"])
    for export in ("malloc", "strata_static", "heap"):
        expect_ok(folder / "in_c" / f"uses_{export}")


def build_with_pkg_config(prefix, folder, exports):
    files = {path.stem: path for path in prefix.rglob("pkgconfig/*.pc")}
    for export in exports:
        if export == "malloc":  # strata.pc says it, too
            continue
        module = export if export == "strata" else "strata-" + export.removeprefix("strata_")
        if module not in files:
            sys.exit(f"no {module}.pc among the installed files: {sorted(files)}")
        search = {**os.environ, "PKG_CONFIG_PATH": str(files[module].parent)}
        is_c = export not in ("toolkit", "heap")
        compiler, source = ("cc", "malloc_program.c") if is_c else ("c++ -std=c++17", f"{export}_program.cpp")
        program = folder / f"uses_{export}"
        flags = run(["pkg-config", "--cflags", module], env=search).split()
        libraries = run(["pkg-config", "--libs", module], env=search).split()
        for linker in filter(lambda name: shutil.which(f"ld.{name}"), ("gold", "lld", "bfd")):
            run([*compiler.split(), f"-fuse-ld={linker}", *flags, HERE / source, "-o", program, *libraries])
            expect_ok(program, {"LD_LIBRARY_PATH": str(files[module].parent.parent)})
        if export == "strata":
            calls_nothing = folder / "calls_nothing"
            run(["cc", "-Wl,--as-needed", HERE / "calls_nothing.c", "-o", calls_nothing, *libraries])
            expect_the_malloc(calls_nothing)
        if export == "strata_static":
            run(["cc", "-static", "-Wl,--fatal-warnings", *flags, HERE / source, "-o", program, *libraries])
            expect_ok(program)
        if export == "heap":
            in_c = folder / "uses_heap_in_c"
            run(["cc", "-std=c11", *flags, HERE / "heap_program.c", "-o", in_c, *libraries])
            expect_ok(in_c)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=["find_package", "add_subdirectory", "pkg-config"])
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--exports", type=lambda text: text.split(","), required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="strata_consumer.") as name:
        folder = pathlib.Path(name)
        if arguments.way == "add_subdirectory":
            # Distributions have the assertions of libstdc++ in their flags, and optimise at link time; programs in C
            # do without libstdc++ nevertheless.
            build_with_cmake(arguments.way, folder, arguments.exports, f"-DSTRATA_SOURCE={arguments.source}",
                             *TOGETHER, "-DCMAKE_CXX_FLAGS=-Wp,-D_GLIBCXX_ASSERTIONS",
                             "-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON")
            if "libstdc++" in run(["readelf", "--dynamic", "--wide", folder / "build/strata/lib/libstrata.so"]):
                sys.exit("libstrata.so needs a C++ library")
            run(["cc", "-I", arguments.source / "include", HERE / "heap_program.c", "-o", folder / "heap_in_c",
                 folder / "build/strata/lib/libstrata_heap.a", "-pthread"])
            expect_ok(folder / "heap_in_c")
            expect_documents_of_its_own(folder)
            build_in_c(arguments.source, folder)
            return
        prefix = install(arguments.build, folder)
        expect_documents(prefix)
        distribution = install_as_a_distribution(arguments.source, arguments.build, folder, "INCLUDEDIR")
        if arguments.way == "find_package":
            build_with_cmake(arguments.way, folder, arguments.exports, f"-DCMAKE_PREFIX_PATH={prefix}")
            shutil.rmtree(folder / "build")
            for place in (distribution, arguments.build):  # the build folder serves, too
                build_with_cmake(arguments.way, folder, ["malloc"], f"-DCMAKE_PREFIX_PATH={place}")
                shutil.rmtree(folder / "build")
        else:
            expect_the_name_of_the_library(arguments.source, arguments.build, folder)
            build_with_pkg_config(prefix, folder, arguments.exports)
            build_with_pkg_config(distribution, folder, ["strata", "strata_static"])
            install_as_a_distribution(arguments.source, arguments.build, folder, "LIBDIR")
            build_with_pkg_config(folder / "LIBDIR", folder, ["strata", "strata_static"])


if __name__ == "__main__":
    main()
