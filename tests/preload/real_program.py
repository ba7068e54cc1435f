#!/usr/bin/env python3
"""Runs a real program on glibc's malloc and on Strata; both runs must give the same output.

usage: real_program.py --library libstrata.so [--set NAME=VALUE]... CASE

Each case works in an empty directory of its own and returns what is to be compared: texts, exit
statuses, hashes of files. A program that is missing is a failure: scripts/bootstrap installs it.
"""
import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 300


class Failure(Exception):
    pass


class Workplace:
    """A directory, an environment, and programs run in them."""

    def __init__(self, folder, preload, options):
        self.folder = pathlib.Path(folder)
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(folder),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }
        if preload:
            self.env["LD_PRELOAD"] = preload
            self.env.update(option.split("=", 1) for option in options)
            if preload.encode() not in self.run("cat", "/proc/self/maps"):
                raise Failure(f"{preload} is not loaded")

    def program(self, name):
        found = shutil.which(name, path=self.env["PATH"])
        if found is None:
            raise Failure(f"{name} is not installed; scripts/bootstrap installs it")
        return found

    def run(self, name, *arguments, stdin=None, env=(), ok=(0,)):
        """Standard output and error of the program, which must end as expected."""
        command = [self.program(name), *map(str, arguments)]
        ran = subprocess.run(command, cwd=self.folder, env={**self.env, **dict(env)}, input=stdin,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S)
        if ran.returncode not in ok:
            raise Failure(f"{command} ended with {ran.returncode}:\n{ran.stdout.decode(errors='replace')[-4000:]}")
        return ran.stdout

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def hash_of(self, name):
        return hashlib.sha256((self.folder / name).read_bytes()).hexdigest()


PYTHON_PROGRAM = """
import collections, gc, hashlib, json, random, re, threading, zlib
random.seed(7)
words = [''.join(random.choices('abcdefghij', k=random.randint(1, 40))) for _ in range(60000)]
counts = collections.Counter(w[:2] for w in words)
print(sorted(counts.items())[:20])
text = json.dumps({w: [i, w * 3] for i, w in enumerate(words)})
back = json.loads(text)
print(len(text), hashlib.sha256(text.encode()).hexdigest(), back[words[5]][0])
packed = zlib.compress(text.encode(), 6)
print(len(packed), zlib.decompress(packed) == text.encode())
print(len(re.findall(r'a+b', text)))
results = [None] * 6
def work(n):
    rows = [[(i * j + n) % 97 for j in range(200)] for i in range(200)]
    results[n] = sum(map(sum, zip(*rows)))
threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
for t in threads: t.start()
for t in threads: t.join()
print(results)
big = bytearray()
for i in range(2000): big += bytes([i % 256]) * 10000
print(hashlib.md5(big).hexdigest(), gc.collect() >= 0)
"""


def python3(at):
    at.write("program.py", PYTHON_PROGRAM)
    plain = at.run("/usr/bin/python3", "program.py")
    # Every object through malloc, and the interpreter's own debug checks over it.
    return plain, at.run("/usr/bin/python3", "program.py", env={"PYTHONMALLOC": "malloc"}), at.run(
        "/usr/bin/python3", "program.py", env={"PYTHONMALLOC": "malloc_debug"})


def python3_own_tests(at):
    tests = ["test_list", "test_dict", "test_threading", "test_subprocess"]
    output = at.run("/usr/bin/python3", "-m", "test", "-w", "-j2", *tests, env={"PYTHONMALLOC": "malloc"}).decode()
    if f"All {len(tests)} tests OK." not in output:
        raise Failure(output[-4000:])
    return len(tests)


PERL_PROGRAM = r"""
use strict; use warnings;
srand(5); my %h; my $state = 12345;
sub draw { $state = ($state * 1103515245 + 12345) % 2147483648; return $state }
for my $i (1 .. 120000) { my $k = join '', map { chr(97 + draw() % 26) } 1 .. 1 + $i % 12; $h{$k} .= "$i,"; }
my @keys = sort keys %h;
print scalar(@keys), " $keys[0] $keys[-1] ", length(join '', map { $h{$_} } @keys), "\n";
my $text = join ' ', @keys; my $n = 0; $n++ while $text =~ /\b([a-f]+)\b/g; print "$n\n";
my @m = map { [ map { $_ * 3 } 1 .. 50 ] } 1 .. 3000; my $sum = 0; $sum += $_ for map { @$_ } @m; print "$sum\n";
my $s = ''; $s .= chr(65 + $_ % 26) x 1000 for 1 .. 5000; print length($s), ' ', unpack('%32C*', $s), "\n";
"""


def perl(at):
    at.write("program.pl", PERL_PROGRAM)
    return at.run("perl", "program.pl")


BASH_PROGRAM = r"""
declare -A count; text=
for i in {1..4000}; do key=k$((i * 7919 % 613)); count[$key]=$((${count[$key]:-0} + i)); text+="$key "; done
echo ${#count[@]} ${count[k1]} ${#text} "${text//k1/}" | cut -c 1-200
for i in {1..20}; do (echo "$i: ${text:$i:30}" | tr k K); done
coproc CAT { cat; }; echo through a coprocess >&${CAT[1]}; read -r line <&${CAT[0]}; echo "$line"
f() { local n=$1; ((n == 0)) && echo bottom || f $((n - 1)); }; f 200
mapfile -t lines < <(for i in {1..2000}; do echo "line $i of many"; done); echo ${#lines[@]} "${lines[1999]}"
printf '%s\n' "${lines[@]}" | sort -r | head -3
trap 'echo ended' EXIT
"""


def bash(at):
    at.write("program.sh", BASH_PROGRAM)
    return at.run("bash", "program.sh")


def git(at):
    dates = {"GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"}
    at.env.update(dates, GIT_CONFIG_NOSYSTEM="1", GIT_AUTHOR_NAME="A", GIT_AUTHOR_EMAIL="a@b", GIT_COMMITTER_NAME="A",
                  GIT_COMMITTER_EMAIL="a@b")
    at.run("git", "init", "-q", "-b", "main", ".")
    seen = []
    for commit in range(12):
        for file in range(40):
            lines = [f"line {n} of {file}, commit {commit if n % (file + 2) == 0 else 0}" for n in range(300)]
            at.write(f"folder{file % 5}/file{file}.txt", "\n".join(lines) + "\n")
        at.run("git", "add", ".")
        at.run("git", "commit", "-q", "-m", f"commit {commit}")
    seen.append(at.run("git", "log", "--stat", "-p"))
    at.run("git", "checkout", "-q", "-b", "side", "HEAD~4")
    at.write("folder0/file0.txt", "another\n")
    at.run("git", "commit", "-q", "-a", "-m", "aside")
    at.run("git", "merge", "-q", "-X", "ours", "-m", "merged", "main")
    at.run("git", "gc", "-q", "--aggressive")
    seen += [at.run("git", "log", "--graph", "--oneline"), at.run("git", "fsck", "--strict", "--full"),
             at.run("git", "blame", "folder1/file1.txt"), at.run("git", "rev-parse", "HEAD")]
    return seen


SQLITE_PROGRAM = """
create table t(id integer primary key, name text, value real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 120000)
  insert into t select i, printf('name-%d-%s', (i * 7919) % 10007, hex(i)), i * 0.5 from n;
create index by_name on t(name);
select count(*), sum(value), min(name), max(name) from t;
select substr(name, 1, 7) as prefix, count(*) as c from t group by prefix order by c desc, prefix limit 10;
update t set name = name || '-x' where id % 3 = 0;
delete from t where id % 5 = 0;
select count(*), sum(length(name)), group_concat(id) from (select * from t order by name limit 300);
select a.id, b.id from t a join t b on a.name = b.name || '-x' order by 1 limit 20;
vacuum;
pragma integrity_check;
"""


def sqlite3(at):
    output = at.run("sqlite3", "data.db", stdin=SQLITE_PROGRAM.encode())
    return output, at.run("sqlite3", "data.db", ".dump"), at.run("sqlite3", ":memory:", stdin=SQLITE_PROGRAM.encode())


CPP_PROGRAM = """
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>
template <int N> struct Sum { static constexpr long value = N + Sum<N - 1>::value; };
template <> struct Sum<0> { static constexpr long value = 0; };
int main() {
  std::map<std::string, std::vector<std::unique_ptr<int>>> m;
  for (int i = 0; i < 1000; ++i) m[std::to_string(i % 37)].push_back(std::make_unique<int>(i));
  long sum = 0;
  for (auto& [k, v] : m) for (auto& p : v) sum += *p * static_cast<long>(k.size());
  std::cout << sum << ' ' << Sum<500>::value << '\\n';
}
"""


def gcc(at):
    at.write("program.cpp", CPP_PROGRAM)
    at.run("g++", "-std=c++20", "-O1", "-g", f"-fdebug-prefix-map={at.folder}=.", "-c", "program.cpp", "-o", "program.o")
    at.run("g++", "program.o", "-o", "program")
    return at.hash_of("program.o"), at.run(at.folder / "program")


def cmake(at):
    at.write("source/CMakeLists.txt", """
cmake_minimum_required(VERSION 3.20)
project(tiny C CXX)
find_package(Threads REQUIRED)
foreach(i RANGE 200)
  string(SHA256 h "${i}")
  list(APPEND hashes ${h})
endforeach()
list(SORT hashes)
string(JOIN "," all ${hashes})
string(MD5 sum "${all}")
message(STATUS "sum ${sum}")
file(WRITE ${CMAKE_BINARY_DIR}/main.c "int main(void) { return 0; }")
add_executable(tiny ${CMAKE_BINARY_DIR}/main.c)
target_link_libraries(tiny Threads::Threads)
enable_testing()
add_test(NAME tiny COMMAND tiny)
""")
    output = at.run("cmake", "-S", "source", "-B", "build").decode()
    at.run("cmake", "--build", "build")
    tested = at.run("ctest", "--test-dir", "build").decode()
    timeless = [line for line in output.splitlines() if "done" not in line and str(at.folder) not in line]
    return timeless, "100% tests passed" in tested, at.run(at.folder / "build/tiny")


def tar(at):
    for i in range(60):
        at.write(f"data/{i % 7}/file{i}", "".join(f"{i * n % 1009} is a number\n" for n in range(3000)))
    at.run("tar", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "-cf", "plain.tar", "data")
    seen = [at.hash_of("plain.tar")]
    for tool, options in [("xz", ["-3", "-T2"]), ("zstd", ["-q", "-9", "-T2"]), ("gzip", ["-n"])]:
        at.run(tool, *options, "-k", "plain.tar")
        suffix = {"xz": "xz", "zstd": "zst", "gzip": "gz"}[tool]
        (at.folder / tool).mkdir()
        at.run("tar", "-xf", f"plain.tar.{suffix}", "-C", tool)
        at.run("diff", "-r", "data", f"{tool}/data")
        seen.append(at.hash_of(f"plain.tar.{suffix}"))
    return seen


def redis(at):
    socket = at.folder / "redis.sock"
    server = subprocess.Popen(
        [at.program("redis-server"), "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(at.folder),
         "--io-threads", "2", "--activedefrag", "no"],
        cwd=at.folder, env=at.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        for _ in range(TIMEOUT_S * 20):
            if socket.exists() or server.poll() is not None:
                break
            time.sleep(0.05)
        if not socket.exists():
            server.kill()
            raise Failure(f"redis-server does not listen:\n{server.communicate()[0].decode()[-2000:]}")
        run = lambda *a: at.run("redis-cli", "-s", socket, *a)
        tests = "set,get,incr,lpush,rpop,sadd,hset,spop,zadd,lrange_100,mset"
        benched = at.run("redis-benchmark", "-s", socket, "-q", "--csv", "-n", 1000, "-r", 1000, "-c", 20, "-d", 300, "-t",
                         tests).decode()
        if benched.count("\n") < 11:
            raise Failure(benched)
        run("flushall")
        for i in range(9):
            run("rpush", f"list{i % 3}", *[f"value-{i}-{n}" for n in range(200)])
            run("hset", "hash", *[f"{k}{n}" for n in range(100) for k in (f"k{i}-", "v")])
        seen = [run("dbsize"), run("lrange", "list1", "0", "-1"), run("hlen", "hash")]
        subprocess.run([at.program("redis-cli"), "-s", socket, "shutdown", "nosave"], env=at.env, timeout=TIMEOUT_S,
                       stdout=subprocess.DEVNULL)
        output = server.communicate(timeout=TIMEOUT_S)[0].decode()
        if server.returncode != 0:
            raise Failure(f"redis-server ended with {server.returncode}:\n{output[-2000:]}")
        return seen
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


def php(at):
    """Its extensions are loaded with RTLD_DEEPBIND, and share blocks with it."""
    at.write("work.php", """<?php
        $rows = [];
        for ($i = 0; $i < 20000; $i++) $rows[] = ['id' => $i, 'name' => "name $i", 'tags' => range(0, $i % 7)];
        $text = json_encode($rows);
        echo md5($text), ' ', count(json_decode($text, true)), "\\n";
        echo preg_match_all('/name \\d*7\\b/', $text), ' ', iconv('UTF-8', 'ISO-8859-1', 'caf\u00e9') === "caf\\xe9", "\\n";
        $file = new SplFileObject('rows.txt', 'w+');
        foreach ($rows as $row) $file->fputcsv([$row['id'], $row['name']]);
        echo md5_file('rows.txt'), ' ', posix_getpid() > 0, ' ', ctype_alpha('abc'), ' ', gettext('text'), "\\n";
        $phar = new Phar('rows.phar');
        $phar->addFile('rows.txt');
        echo md5(file_get_contents('phar://rows.phar/rows.txt')), ' ', bin2hex(gzcompress($text)) !== '', "\\n";
        """)
    return [at.run("php", "-d", "phar.readonly=0", *options, "work.php", env={"USE_ZEND_ALLOC": own}.items())
            for own in ("1", "0") for options in ((), ("-d", "opcache.enable_cli=1"))]


CASES = {case.__name__: case for case in (python3, python3_own_tests, perl, bash, git, sqlite3, gcc, cmake, tar, redis, php)}
# Compared with themselves only: the run says whether it went well, and takes long.
ALONE = {"python3_own_tests"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="for the runs on Strata")
    parser.add_argument("case", choices=CASES)
    arguments = parser.parse_args()
    seen = {}
    try:
        for name, preload in [("glibc", None), ("strata", arguments.library)]:
            if arguments.case in ALONE and preload is None:
                continue
            with tempfile.TemporaryDirectory(prefix="strata-") as parent:
                # Of the same name for both, so that outputs with relative paths in them agree.
                folder = pathlib.Path(parent) / "work"
                folder.mkdir()
                seen[name] = CASES[arguments.case](Workplace(folder, preload, arguments.set))
    except (Failure, subprocess.TimeoutExpired) as failure:
        print(f"{arguments.case} on {name}: {failure}")
        return 1
    if "glibc" in seen and seen["glibc"] != seen["strata"]:
        print(f"{arguments.case}: outputs differ\n--- glibc\n{str(seen['glibc'])[:3000]}\n--- strata\n{str(seen['strata'])[:3000]}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
