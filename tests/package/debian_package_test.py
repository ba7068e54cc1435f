#!/usr/bin/env python3
"""Makes the Debian packages, and installs, uses and purges them in a fresh root.

usage: debian_package_test.py --build DIR

The root is made by debootstrap, so this needs root, debootstrap and the mirror of this machine's
packages. Where one of them is missing it says which, and is skipped (status 77).
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

SKIPPED = 77
# Folders in which dpkg, ldconfig and their logs keep books of their own.
BOOKS = re.compile(r"^(proc|sys|dev|tmp|var/(lib/dpkg|cache|log|lib/apt)|etc/ld\.so\.cache)(/|$)")


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def run(command, status=0, **keywords):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", **keywords)
    if status is not None and done.returncode != status:
        sys.exit(f"{shlex.join(map(str, command))}\n{done.stdout}\nended with status {done.returncode}")
    return done.stdout


def find_mirror():
    """The first http address in this machine's package sources that serves Debian itself."""
    files = [pathlib.Path("/etc/apt/sources.list"), *pathlib.Path("/etc/apt/sources.list.d").glob("*")]
    for file in files:
        for line in file.read_text().splitlines() if file.is_file() else []:
            address = re.search(r"https?://\S+", line)
            if address and not line.lstrip().startswith("#") and address[0].rstrip("/").endswith("/debian"):
                return address[0]
    return "http://deb.debian.org/debian"


def codename():
    return re.search(r"VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text())[1]


def expect(said, *wanted):
    for text in wanted:
        if text not in said:
            sys.exit(f"expected {text!r} in:\n{said}")


class Root:
    """A Debian of its own, with only its /proc from outside."""

    def __init__(self, folder):
        self.folder = folder

    def make(self, packages):
        made = subprocess.run(["debootstrap", "--variant=minbase", f"--include={','.join(packages)}",
                               codename(), self.folder, find_mirror()],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if made.returncode != 0:
            skip(f"debootstrap from {find_mirror()} failed: {made.stdout[-300:]}")

    def run(self, *command, **keywords):
        return run(["unshare", "--mount", "--pid", "--fork", f"--mount-proc={self.folder}/proc", "chroot",
                    self.folder, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8",
                    "DEBIAN_FRONTEND=noninteractive", *command], **keywords)

    def files(self):
        found = set()
        for place, folders, names in os.walk(self.folder):
            inside = os.path.relpath(place, self.folder)
            found.update(os.path.normpath(os.path.join(inside, name)) for name in folders + names)
        return {name for name in found if not BOOKS.match(name)}


def needed_by(package):
    """The names of what a package depends on."""
    depends = run(["dpkg-deb", "--field", package, "Depends"])
    return re.sub(r" \(.*?\)", "", depends.strip()).split(", ")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    build = parser.parse_args().build
    for tool in ("debootstrap", "dpkg-deb", "dpkg-shlibdeps", "unshare", "chroot"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    if os.geteuid() != 0:
        skip("a fresh root needs root")

    with tempfile.TemporaryDirectory(prefix="strata_package.") as name:
        folder = pathlib.Path(name)
        run(["cpack", "--config", build / "CPackConfig.cmake", "-B", folder / "made"])
        packages = {file.name.split("_")[0]: file for file in (folder / "made").glob("*.deb")}
        if sorted(packages) != ["libstrata-dev", "libstrata0", "strata"]:
            sys.exit(f"cpack made {sorted(packages)}")
        if needed_by(packages["libstrata0"]) != ["libc6"]:
            sys.exit(f"the preloaded library needs more than the C library: {needed_by(packages['libstrata0'])}")
        needed = run(["dpkg-deb", "--info", packages["libstrata0"], "shlibs"])
        if not re.fullmatch(r"libstrata 0 libstrata0 \(>= [\d.]+\), libstrata0 \(<< [\d.]+~\)\n", needed):
            sys.exit(f"programs that link the library depend on {needed!r}")
        synopses = {run(["dpkg-deb", "--field", file, "Description"]).splitlines()[0] for file in packages.values()}
        if len(synopses) != len(packages):
            sys.exit(f"packages have the same first line of a description: {synopses}")

        root = Root(folder / "root")
        root.make(set(needed_by(packages["strata"])) - {"libstrata0"})
        before = root.files()
        for file in packages.values():
            shutil.copy(file, root.folder / "root")

        def install(package):
            root.run("dpkg", "--install", f"/root/{packages[package].name}")

        install("libstrata0")
        preload = ["env", "LD_PRELOAD=libstrata.so.0", "STRATA_STATS=exit"]
        expect(root.run(*preload, "sh", "-c", "perl -e 'print 6*7, qq(\\n)'"), "42\n", "strata: live")

        install("strata")
        version = packages["strata"].name.split("_")[1]
        expect(root.run("strata", "--version"), version)
        expect(root.run("strata", "run", "--stats", "--", "perl", "-e", "print 6*7, qq(\\n)"),
               "42\n", "strata: live")
        expect(root.run("strata", "compare", "--runs", "2", "--", "perl", "-e", "1"), "system", "strata")
        expect(root.run("strata", "record", "-o", "/tmp/trace", "--", "perl", "-e", "1"), "in '/tmp/trace'")
        install("libstrata-dev")
        for needed in ("lib/libstrata.so", "share/man/man1/strata.1", "share/man/man3/libstrata.3",
                       "share/strata/rust/Cargo.toml"):
            if not (root.folder / "usr" / needed).exists():
                sys.exit(f"the packages bring no /usr/{needed}")

        refused = root.run("dpkg", "--remove", "libstrata0", status=None)
        expect(refused, "depends on libstrata0")
        root.run("dpkg", "--purge", *packages)
        for file in packages.values():
            (root.folder / "root" / file.name).unlink()
        left, lost = root.files() - before, before - root.files()
        if left or lost:
            sys.exit(f"after the purge there are {sorted(left)} too many and {sorted(lost)} too few")
        print("ok")


if __name__ == "__main__":
    main()
