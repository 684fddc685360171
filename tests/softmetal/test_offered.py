"""All that libsoftmetal offers to its clients stands in one file: nothing comes or goes unseen.

`IRIS_UPDATE=1` writes it anew, to be read and committed.
"""

from __future__ import annotations

import ctypes as c
import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from metal import library

from iris.softmetal import build

OFFERED = Path(__file__).with_name("offered.txt")


class Place(c.Structure):
    """Dl_info."""

    _fields_ = [("path", c.c_char_p), ("_", c.c_void_p), ("name", c.c_char_p), ("__", c.c_void_p)]


@cache
def objective_c() -> c.CDLL:
    made = c.CDLL("libobjc.so.4")
    made.class_copyMethodList.restype = c.POINTER(c.c_void_p)
    for name in ("objc_getMetaClass", "method_getName", "method_getImplementation"):
        getattr(made, name).restype = c.c_void_p
    for name in ("class_getName", "sel_getName"):
        getattr(made, name).restype = c.c_char_p
    return made


def is_ours(address: int) -> bool:
    found = Place()
    there = c.CDLL(None).dladdr(c.c_void_p(address), c.byref(found))
    return bool(there) and found.path.decode() == str(build.library())


def methods() -> Iterator[str]:
    """Of all classes, those that libsoftmetal implements; one of another library may have some."""
    library().MTLCreateSystemDefaultDevice()  # a class may add methods when it is first used
    runtime = objective_c()
    classes = (c.c_void_p * runtime.objc_getClassList(None, 0))()
    runtime.objc_getClassList(classes, len(classes))
    for one in classes:
        name = runtime.class_getName(c.c_void_p(one))
        for sign, where in (("-", one), ("+", runtime.objc_getMetaClass(name))):
            count = c.c_uint()
            found = runtime.class_copyMethodList(c.c_void_p(where), c.byref(count))
            for method in map(c.c_void_p, found[: count.value]):
                selector = runtime.sel_getName(c.c_void_p(runtime.method_getName(method)))
                if is_ours(runtime.method_getImplementation(method)):
                    yield f"{sign}[{name.decode()} {selector.decode()}]"


def symbols() -> Iterator[str]:
    """Functions and constants; weak ones are C++'s own."""
    command = ["nm", "--dynamic", "--defined-only", str(build.library())]
    for line in subprocess.check_output(command, text=True).splitlines():
        _, kind, name = line.split()
        if kind not in "Ww" and not name.startswith("_Z"):
            yield name


def test_all_that_is_offered() -> None:
    offered = "\n".join(sorted({*symbols(), *methods()})) + "\n"
    if os.environ.get("IRIS_UPDATE") == "1":
        OFFERED.write_text(offered)
    assert offered == OFFERED.read_text()
