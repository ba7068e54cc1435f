#!/usr/bin/env python3
"""The scripts among stand-ins for other tools: what they ask of them and what they say."""
import errno
import json
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLAIN_TOOLS = "bash basename cat chown comm cut dirname env flock mkdir sed sleep sort stty tail tr".split()

# Knows the packages named in $STATE/installed, one per line.
DPKG_QUERY = 'for name; do grep -qxF -- "$name" "$STATE/installed" && echo "installed $name"; done; true'
# Notes its arguments; `install` installs whatever is not in $STATE/broken.
APT_GET = """echo "$*" >> "$STATE/calls"
case " $* " in *" install "*) ;; *) exit 0 ;; esac
status=0
for name; do
  case $name in -* | install | DPkg*) continue ;; esac
  if grep -qxF -- "$name" "$STATE/broken"; then
    echo "E: Unable to locate package $name"; status=100
  else
    echo "$name" >> "$STATE/installed"
  fi
done
exit $status"""


class Bootstrap(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.bin, self.state = self.root / "bin", self.root / "state"
        for path in (self.bin, self.state, self.root / "scripts"):
            path.mkdir()
        for name in ("bootstrap", "steps.sh"):
            shutil.copy(ROOT / "scripts" / name, self.root / "scripts" / name)
        for tool in [*PLAIN_TOOLS, "grep"]:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.packages = self.run_script("list").stdout.split()
        self.assertIn("cmake", self.packages)
        self.stand_in("dpkg-query", DPKG_QUERY)
        self.stand_in("apt-get", APT_GET)
        self.stand_in("id", "echo 0")
        self.note("installed", self.packages)
        self.note("broken", [])
        self.note("calls", [])

    def stand_in(self, name, body):
        (self.bin / name).unlink(missing_ok=True)  # a link to the tool itself
        (self.bin / name).write_text(f"#!{self.bin}/bash\n{body}\n")
        (self.bin / name).chmod(0o755)

    def note(self, name, lines):
        (self.state / name).write_text("".join(line + "\n" for line in lines))

    def uninstall(self, *names):
        self.note("installed", [name for name in self.packages if name not in names])

    def calls(self):
        return (self.state / "calls").read_text().splitlines()

    def run_script(self, *arguments, **environment):
        return subprocess.run([self.bin / "bash", self.root / "scripts" / "bootstrap", *arguments], text=True,
                              env={"PATH": str(self.bin), "STATE": str(self.state), **environment},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def test_is_silent_and_asks_nothing_where_all_is_there(self):
        done = self.run_script()
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(self.calls(), [])

    def test_installs_only_what_is_missing(self):
        self.uninstall("ninja-build", "valgrind")
        done = self.run_script()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("To install: ninja-build valgrind\n", done.stdout)
        self.assertEqual(len(self.calls()), 2, self.calls())
        self.assertTrue(self.calls()[0].endswith(" update"))
        self.assertTrue(self.calls()[1].endswith(" install --no-install-recommends ninja-build valgrind"))

    def test_the_demo_needs_fewer_packages(self):
        self.uninstall("valgrind", "chromium")
        self.assertEqual(self.run_script("demo").stdout, "")
        self.uninstall("libjemalloc2")
        self.assertIn("To install: libjemalloc2\n", self.run_script("demo").stdout)

    def test_another_machine_has_a_compiler_and_an_emulator_of_its_own(self):
        done = self.run_script("aarch64")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("To install: g++-aarch64-linux-gnu googletest qemu-user-static\n", done.stdout)

    def test_another_kernel_has_a_machine_of_its_own(self):
        done = self.run_script("kernels")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("To install: busybox-static cpio qemu-system-x86\n", done.stdout)

    def test_names_the_package_that_cannot_be_installed(self):
        self.uninstall("ninja-build", "valgrind")
        self.note("broken", ["valgrind"])
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertIn("E: Unable to locate package valgrind\n", done.stdout)
        self.assertTrue(done.stdout.endswith("scripts/bootstrap: these packages could not be installed: valgrind\n"))

    def test_says_what_to_run_where_it_may_not_install(self):
        self.uninstall("ninja-build")
        self.stand_in("id", "echo 1000")
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "scripts/bootstrap: packages are missing and neither root nor sudo is at hand; "
                                      "run as root: apt-get install --no-install-recommends ninja-build\n")
        self.assertEqual(self.calls(), [])

    def test_goes_through_sudo_where_there_is_one(self):
        self.uninstall("ninja-build")
        self.stand_in("id", "echo 1000")
        self.stand_in("sudo", '[ "$1" = -v ] && exit 0\necho "sudo $2" >> "$STATE/calls"\nexec "$@"')
        done = self.run_script()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(sum(call.startswith("sudo ") for call in self.calls()), 2)

    @unittest.skipUnless(os.geteuid() == 0, "only root makes files in another's name")
    def test_what_root_makes_belongs_to_the_owner_of_the_checkout(self):
        self.uninstall("ninja-build")
        try:
            os.chown(self.root, 12345, 12345)
        except OSError as error:
            self.skipTest(f"this root may not: {error}")
        done = self.run_script()
        self.assertEqual(done.returncode, 0, done.stdout)
        made = [self.root / "build", *(self.root / "build").rglob("*")]
        self.assertGreater(len(made), 3)
        self.assertEqual({(path.stat().st_uid, path.stat().st_gid) for path in made}, {(12345, 12345)})

    def test_files_that_cannot_be_locked_or_given_away_are_no_mistake(self):
        self.uninstall("ninja-build")
        self.stand_in("flock", "exit 66")
        self.stand_in("chown", "exit 1")
        done = self.run_script()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("waiting", done.stdout)

    def test_says_so_on_another_system_and_can_be_told_to_stay_out(self):
        (self.bin / "dpkg-query").unlink()
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertIn("scripts/bootstrap: this is not Debian; ", done.stdout)
        self.assertEqual(self.run_script(STRATA_BOOTSTRAP="off").returncode, 0)

    def test_its_help_installs_nothing(self):
        self.uninstall("ninja-build")
        done = self.run_script("--help")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("scripts/bootstrap demo     what scripts/demo needs\n", done.stdout)
        self.assertEqual(self.calls(), [])

    def test_the_help_of_the_demo_neither_installs_nor_builds(self):
        done = subprocess.run([ROOT / "scripts" / "demo", "--help"], text=True, stdout=subprocess.PIPE,
                              env={**os.environ, "STRATA_BOOTSTRAP": "off"})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertTrue(done.stdout.startswith("usage:"), done.stdout)

    def test_refuses_a_purpose_that_it_does_not_know(self):
        done = self.run_script("everything")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "scripts/bootstrap: unknown purpose 'everything'; use demo, aarch64, kernels, test, list or nothing\n")


class Demo(unittest.TestCase):
    """In a checkout that has nothing but what the demo runs, with a stand-in for CMake."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("scripts/demo", "scripts/steps.sh", "demo/run_demo.py"):
            (self.root / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        for name, body in (("scripts/bootstrap", "exit 0"), ("bin/cmake", "exit 1")):
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
            (self.root / name).chmod(0o755)

    def run_script(self, *arguments):
        return subprocess.run([self.root / "scripts/demo", *arguments], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"})

    def test_what_it_does_not_know_is_refused_before_anything_is_built(self):
        for arguments, sentence in ((("--moer",), "error: unrecognized arguments: --moer"), (("--runs", "few"), "invalid int value"),
                                    (("--runs", "0"), "error: --runs is 0; give at least 1"),
                                    (("--more", "--only", "jq,awk"), "error: no workload awk; there are ")):
            done = self.run_script(*arguments)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(sentence, done.stdout)
            self.assertNotIn("Configure", done.stdout)

    def test_what_it_knows_is_built(self):
        done = self.run_script("--more", "--only", "jq,git")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("the step 'Configure' failed", done.stdout)


ROW = {"scenario": "churn", "params": {}, "contender": "strata", "ok": True,
       "metrics": {"ns_per_op": {"median": 12}, "peak_rss_bytes": {"median": 1 << 20}}}


class BenchmarkTables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.document = self.write("document.md", "before\n<!-- results -->\n<!-- end of results -->\nafter\n")

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return self.folder / name

    def run_tool(self, *arguments):
        done = subprocess.run([ROOT / "tools/benchmark_tables", *arguments], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        return done.returncode, done.stderr

    def write_results(self, *rows):
        machine = {"cores": 2, "cpu": "a processor", "memory_bytes": 1 << 30, "kernel": "Linux"}
        return self.write("results.json", json.dumps({"machine": machine, "rows": rows}))

    def test_writes_a_table_between_the_marks(self):
        self.assertEqual(self.run_tool(self.write_results(ROW), self.document), (0, ""))
        self.assertIn("| churn | 12 ns / 1.0 MiB |", self.document.read_text())

    def test_a_contender_without_a_ratio_of_memory_has_no_mean(self):
        ratios = {"ns_per_op": {"ratio": 0.5}, "peak_rss_bytes": {"ratio": 0.25}}
        rows = [ROW, {**ROW, "contender": "other", "ratios": ratios},
                {**ROW, "contender": "unknown", "ratios": {"ns_per_op": {"ratio": 0.5}}}]
        self.assertEqual(self.run_tool(self.write_results(*rows), self.document), (0, ""))
        self.assertIn("\n| other | 0.50 | 0.25 |\n\n", self.document.read_text())

    def test_what_it_cannot_read_is_one_sentence(self):
        for name, text, sentence in (("none.json", None, "cannot be read: No such file or directory"),
                                     ("text.json", "text", "has no results of strata bench --json"),
                                     ("other.json", '{"rows": []}', "has no results of strata bench --json"),
                                     ("list.json", "[]", "has no results of strata bench --json"),
                                     ("row.json", '{"machine": {}, "rows": [{}]}', "has no results of strata bench --json")):
            file = self.write(name, text) if text is not None else self.folder / name
            self.assertEqual(self.run_tool(file, self.document), (1, f"'{file}' {sentence}\n"))
        self.assertIn(f"'{file}' has no lines <!-- results -->", self.run_tool(file, file)[1])
        failed = self.write_results({**ROW, "ok": False})
        self.assertEqual(self.run_tool(failed, self.document), (1, f"'{failed}' has no results of strata bench --json\n"),
                         "a failed row without a reason")


class Kernels(unittest.TestCase):
    """What it says before there is a machine to boot, in a checkout that has nothing but its scripts."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("bin", "scripts"):
            (self.root / name).mkdir()
        for name in ("kernels", "steps.sh"):
            shutil.copy(ROOT / "scripts" / name, self.root / "scripts" / name)
        self.stand_in("scripts/bootstrap", "exit 0")
        self.stand_in("bin/uname", "echo x86_64")
        self.stand_in("bin/apt-cache", 'echo "  Depends: linux-image-1-cloud-amd64"')
        self.stand_in("bin/apt-get", 'echo "E: Failed to fetch"; exit 100')

    def stand_in(self, name, body):
        (self.root / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (self.root / name).chmod(0o755)

    def run_script(self, *arguments):
        return subprocess.run([self.root / "scripts" / "kernels", *arguments], text=True,
                              env={**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def test_says_what_it_does(self):
        done = self.run_script("--help")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertTrue(done.stdout.startswith("Runs test programs under kernel settings "), done.stdout)
        self.assertTrue(done.stdout.endswith("for the next run.\n"), done.stdout)

    def test_refuses_an_option_that_it_does_not_know(self):
        done = self.run_script("--kvm")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "scripts/kernels: unexpected argument '--kvm'; scripts/kernels --help says what there is\n")

    def test_says_that_it_is_for_another_processor(self):
        self.stand_in("bin/uname", "echo aarch64")
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "scripts/kernels: the emulated machine is an x86-64, and this one, "
                                      "which builds the programs, is not\n")

    def test_says_that_the_kernel_cannot_be_had(self):
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertIn("E: Failed to fetch\n", done.stdout)
        self.assertTrue(done.stdout.endswith("scripts/kernels: Debian's cloud kernel cannot be had; is there a "
                                             "network, and has 'apt-get update' run?\n"), done.stdout)
        self.assertFalse((self.root / "build" / "kernels" / "vmlinuz").exists())

    def test_finds_its_checkout_whatever_the_shell_searches_for_folders(self):
        (self.root / "elsewhere/scripts").mkdir(parents=True)
        for folders in (".", self.root / "elsewhere"):
            done = subprocess.run(["scripts/kernels"], cwd=self.root, text=True, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  env={**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
                                       "CDPATH": str(folders)})
            self.assertTrue(done.stdout.endswith("and has 'apt-get update' run?\n"), done.stdout)
        self.assertFalse((self.root / "elsewhere/build").exists())

    def test_says_that_apt_knows_no_such_kernel(self):
        self.stand_in("bin/apt-cache", "exit 0")
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertIn("scripts/kernels: apt knows no linux-image-cloud-amd64\n", done.stdout)


def runs(process):
    """Not one whose end nobody has asked for."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def everything(terminal):
    """What was written to a terminal that nobody has open any more; it comes in pieces."""
    said = b""
    try:
        while piece := os.read(terminal, 65536):
            said += piece
    except OSError as end:
        if end.errno != errno.EIO:
            raise
    return said


class Steps(unittest.TestCase):
    """What all scripts have in common, in a checkout with a stand-in for CMake that notes its process."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copytree(ROOT / "scripts", self.root / "scripts")
        (self.root / "tests/fuzz").mkdir(parents=True)
        (self.root / "tests/fuzz/options_fuzz.cpp").touch()
        self.stand_in("exit 1")

    def stand_in(self, body):
        path = self.root / "bin/cmake"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{body}\n")
        path.chmod(0o755)

    def start(self, script, *arguments, stdout=subprocess.PIPE, cwd=None, **environment):
        def as_from_a_shell():  # bash traps no signal that is ignored when it starts
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)

        return subprocess.Popen([self.root / "scripts" / script, *arguments], text=True, stdin=subprocess.DEVNULL, cwd=cwd,
                                stdout=stdout, stderr=subprocess.STDOUT, preexec_fn=as_from_a_shell,
                                env={**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
                                     "STRATA_BOOTSTRAP": "off", **environment})

    def run_script(self, *arguments, **keywords):
        started = self.start(*arguments, **keywords)
        return started.communicate()[0], started.returncode

    def test_arguments_that_a_script_would_ignore_are_refused(self):
        for script, *arguments in (("bootstrap", "demo", "test"), ("test", "--quick", "--clang"), ("soak", "1", "2", "3"),
                                   ("kernels", "", "x")):
            first = arguments[0 if script == "kernels" else -1]
            self.assertEqual(self.run_script(script, *arguments),
                             (f"scripts/{script}: unexpected argument '{first}'; scripts/{script} --help says what there is\n", 1))

    def test_a_lost_terminal_ends_the_step_as_an_interrupt_does(self):
        note = self.root / "process"
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            self.stand_in(f"echo $$ > {note}.new; mv {note}.new {note}; exec sleep 600")
            script = self.start("soak")
            while not note.exists():
                self.assertIsNone(script.poll(), number)
                time.sleep(0.05)
            process = int(note.read_text())
            note.unlink()
            script.send_signal(number)
            try:
                script.communicate(timeout=60)  # as long as someone has the other end of the pipe
                self.assertEqual(script.returncode, 130, number)
                for _ in range(200):
                    if not runs(process):
                        break
                    time.sleep(0.05)
                self.assertFalse(runs(process), number)
            finally:
                subprocess.run(["kill", "-KILL", str(process)], stderr=subprocess.DEVNULL)

    def test_two_scripts_do_not_build_at_the_same_time(self):
        here, leave, together = (self.root / name for name in ("here", "leave", "together"))
        self.stand_in(f"mkdir {here} || {{ touch {together}; exit 1; }}\n"
                      f"until [ -e {leave} ]; do sleep 0.05; done; rmdir {here}; exit 1")
        self.addCleanup(leave.touch)
        first = self.start("soak")
        while not here.exists():
            self.assertIsNone(first.poll())
            time.sleep(0.05)
        second = self.start("fuzz", HOME=str(self.root))
        said = second.stdout.readline()
        leave.touch()
        said += second.communicate()[0]
        first.communicate()
        self.assertIn("Build the fuzz targets: waiting for another script in this checkout, scripts/soak: Build soak\n", said)
        self.assertIn("the step 'Build the fuzz targets' failed", said)
        self.assertFalse(together.exists())

    def test_a_dumb_terminal_gets_lines(self):
        for terminal, drawn in (("dumb", False), ("xterm", True)):
            ours, theirs = pty.openpty()
            self.start("soak", stdout=theirs, TERM=terminal).wait()
            os.close(theirs)
            said = everything(ours).decode()
            os.close(ours)
            self.assertIn("the step 'Build soak' failed", said)
            self.assertEqual("\x1b" in said, drawn, said)

    def test_inputs_of_the_fuzz_targets_are_kept_in_a_folder_relative_to_the_users(self):
        self.stand_in("exit 0")
        (self.root / "elsewhere").mkdir()
        self.run_script("fuzz", "options", cwd=self.root / "elsewhere", STRATA_FUZZ_CORPUS="kept")
        self.assertTrue((self.root / "elsewhere/kept/options").is_dir())

    def test_without_a_home_the_fuzz_targets_need_a_folder(self):
        said, status = self.run_script("fuzz", HOME="", XDG_CACHE_HOME="", STRATA_FUZZ_CORPUS="")
        self.assertEqual(status, 1)
        self.assertTrue(said.endswith("HOME: is not set; let STRATA_FUZZ_CORPUS name a folder\n"), said)


if __name__ == "__main__":
    unittest.main()
