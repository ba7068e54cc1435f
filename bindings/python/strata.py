"""Strata's malloc, seen and steered from the Python program that runs on it.

    $ strata run -- python3 program.py          # or LD_PRELOAD=libstrata.so

    import strata
    before = strata.statistics()["bytes"]["live"]
    with strata.profile("parse.pprof"):
        parse(document)
    print(strata.statistics()["bytes"]["live"] - before, "bytes more")

Python serves objects of up to 512 bytes from arenas of its own. With PYTHONMALLOC=malloc in the environment, the malloc
serves every object, and the figures and profiles show each of them.
"""
import contextlib
import ctypes
import json
import os
import threading

_FUNCTIONS = {  # of strata/malloc.h
    "strata_stats_json": (ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]),
    "strata_options_json": (ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]),
    "strata_release_memory": (ctypes.c_int, []),
    "strata_usable_size": (ctypes.c_size_t, [ctypes.c_void_p]),
    "strata_profile_start": (ctypes.c_int, [ctypes.c_size_t]),
    "strata_profile_stop": (None, []),
    "strata_profile_write": (ctypes.c_int, [ctypes.c_char_p]),
}


def _bind():
    """The functions of the malloc that this process has, by their names in C."""
    program = ctypes.CDLL(None)
    bound = {}
    for name, (result, arguments) in _FUNCTIONS.items():
        try:
            function = program[name]
        except AttributeError:
            raise ImportError("this process does not run on Strata; start it with: strata run -- python3 …") from None
        function.restype, function.argtypes = result, arguments
        bound[name] = function
    return bound


_c = _bind()


def _document(write):
    """The JSON document that a function like snprintf writes."""
    size = 16 << 10
    while True:
        buffer = ctypes.create_string_buffer(size)
        length = write(buffer, size)
        if length < size:
            return json.loads(buffer.value)
        size = length + 1


def statistics():
    """Where the process's memory is; docs/stats-schema.json describes the document."""
    return _document(_c["strata_stats_json"])


def options():
    """The options of the malloc: for each its name, value, default and state. Mistaken names, whose state is unknown, follow."""
    return _document(_c["strata_options_json"])


def release_memory():
    """Returns all idle memory to the kernel now; True if there was any."""
    return _c["strata_release_memory"]() != 0


def usable_size(address):
    """The usable bytes of the block at an address from the malloc."""
    return _c["strata_usable_size"](address)


_is_profiled = threading.Lock()


@contextlib.contextmanager
def profile(path, rate=512 << 10):
    """Writes what the block allocates to `path` in pprof's format: one sample per `rate` bytes; 1 samples everything.

    The process has one profile, so only one block at a time is profiled, with all that other threads allocate meanwhile.
    Blocks of one rate add up: each file holds the earlier ones, which `strata profile later --diff earlier` leaves out.
    """
    file = os.fsencode(path)
    if not _is_profiled.acquire(blocking=False):
        raise RuntimeError("a block is profiled already, and the process has one profile; end that block first")
    try:
        if not _c["strata_profile_start"](rate):
            raise ValueError(f"a rate of {rate} bytes is none; use 1 to {1 << 30}")
        try:
            yield
        finally:
            _c["strata_profile_stop"]()
            if not _c["strata_profile_write"](file):
                raise OSError(f"the profile could not be written to {os.fsdecode(path)}")
    finally:
        _is_profiled.release()
