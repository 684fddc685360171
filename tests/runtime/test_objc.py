"""The bridge to Objective-C: signatures, who owns what, errors, threads."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from iris.errors import IrisError
from iris.runtime.devices import select
from iris.runtime.messages import Range
from iris.runtime.metal import Metal
from iris.runtime.objc import Integer, Object, ObjectiveCError, Pointer, Runtime, UInteger
from on_metal import METAL, library

pytestmark = [pytest.mark.metal, pytest.mark.usefixtures("nothing_old_to_collect")]


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    if METAL == "metal":
        ctypes.CDLL("/System/Library/Frameworks/Foundation.framework/Foundation")
        return Runtime(ctypes.CDLL("/usr/lib/libobjc.A.dylib"))
    return Runtime(library())


@pytest.fixture(autouse=True)
def pool(runtime: Runtime) -> Iterator[None]:
    with runtime.pool():
        yield


def retains(runtime: Runtime, thing: Object) -> int:
    return int(runtime.message("retainCount", UInteger)(thing))


def test_strings(runtime: Runtime) -> None:
    for text in ("", "four", "Grüße, 世界"):
        assert runtime.text(runtime.string(text)) == text
    assert runtime.text(None) == ""
    assert runtime.message("length", UInteger)(runtime.string("four")) == 4


def test_structs_go_by_value(runtime: Runtime) -> None:
    part = runtime.message("substringWithRange:", Object, Range)
    assert runtime.text(part(runtime.string("simdgroup"), Range(4, 5))) == "group"
    find = runtime.message("rangeOfString:", Range, Pointer)
    found = find(runtime.string("simdgroup"), runtime.string("group"))
    assert (found.location, found.length) == (4, 5)


def test_floats_and_wide_integers(runtime: Runtime) -> None:
    numbers = runtime.get_class("NSNumber")
    of_double = runtime.message("numberWithDouble:", Object, ctypes.c_double)(numbers, -2.5)
    assert runtime.message("doubleValue", ctypes.c_double)(of_double) == -2.5
    of_float = runtime.message("numberWithFloat:", Object, ctypes.c_float)(numbers, 0.25)
    assert runtime.message("floatValue", ctypes.c_float)(of_float) == 0.25
    wide = runtime.message("numberWithLongLong:", Object, ctypes.c_longlong)(numbers, -(1 << 40))
    assert runtime.message("longLongValue", ctypes.c_longlong)(wide) == -(1 << 40)


def test_nil_answers_nothing(runtime: Runtime) -> None:
    assert runtime.message("length", UInteger)(None) == 0
    assert runtime.message("description", Object)(None) is None
    assert runtime.message("doubleValue", ctypes.c_double)(None) == 0.0


def test_what_is_owned(runtime: Runtime) -> None:
    new = runtime.message("new", Object)
    array = new(runtime.get_class("NSMutableArray"))
    assert retains(runtime, array) == 1
    add, last = runtime.message("addObject:", None, Pointer), runtime.message("lastObject", Object)
    thing = new(runtime.get_class("NSObject"))
    add(array, thing)
    assert retains(runtime, thing) == 2
    # What is given without being owned is retained, and released with its object.
    again = last(array)
    assert again.pointer == thing.pointer and retains(runtime, thing) == 3
    del again
    gc.collect()
    assert retains(runtime, thing) == 2
    array.release()
    assert array.pointer is None
    array.release()  # does nothing
    assert retains(runtime, thing) == 1


def test_which_methods_give_what_the_caller_owns(runtime: Runtime) -> None:
    copied = runtime.message("mutableCopy", Object)(runtime.string("text"))
    assert retains(runtime, copied) == 1
    # Not those whose name only begins like that.
    with runtime.pool():
        made = runtime.message("newsletter:", Object, Pointer)
    assert made is not None
    with pytest.raises(TypeError, match="takes 1 arguments"):
        runtime.message("addObject:", None)


def test_init_takes_the_place_of_alloc(runtime: Runtime) -> None:
    allocated = runtime.message("alloc", Object)(runtime.get_class("NSString"))
    text = runtime.message("initWithUTF8String:", Object, ctypes.c_char_p)(allocated, b"text")
    assert allocated.pointer is None
    del allocated
    gc.collect()
    assert runtime.text(text) == "text"


def test_a_pool_ends_what_was_given_in_it(runtime: Runtime) -> None:
    make = runtime.message("stringWithUTF8String:", Object, ctypes.c_char_p)
    with runtime.pool():
        kept = make(runtime.get_class("NSString"), b"a text that is long enough to be an object")
        inside = retains(runtime, kept)
    assert retains(runtime, kept) == inside - 1 == 1
    assert runtime.text(kept).startswith("a text")


def test_errors(runtime: Runtime) -> None:
    device = select(METAL)
    assert isinstance(device, Metal)
    text = runtime.string("kernel void broken(device float* x) { y[0] = 1; }")
    options = device.messages.new(runtime.get_class("MTLCompileOptions"))
    with pytest.raises(ObjectiveCError, match="'y'") as caught:
        device.messages.new_library(device._device, text, options)
    assert isinstance(caught.value, IrisError)
    assert caught.value.domain == "MTLLibraryErrorDomain" and caught.value.code == 3


def test_classes(runtime: Runtime) -> None:
    with pytest.raises(LookupError, match="NoSuchClass"):
        runtime.get_class("NoSuchClass")
    known = runtime.message("respondsToSelector:", Integer, Pointer)
    string = runtime.string("text")
    assert known(string, runtime.selector("length")) & 0xFF == 1
    assert known(string, runtime.selector("noSuchMethod")) & 0xFF == 0


def test_threads(runtime: Runtime) -> None:
    wrong = []

    def work(number: int) -> None:
        length = runtime.message("length", UInteger)
        for i in range(500):
            with runtime.pool():
                if length(runtime.string("x" * (number + i))) != number + i:
                    wrong.append(i)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


ENDING = """
import iris
import numpy as np

@iris.kernel
def say(X):
    iris.device_print("here", iris.load(X))

x = iris.asarray(np.ones(1, np.float32), device={device!r})
say[1](x)
"""


def test_the_end_of_python_waits_for_what_was_launched(tmp_path) -> None:
    script = tmp_path / "ending.py"
    script.write_text(ENDING.format(device=METAL))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "here[program (0,0,0)] 1.0\n", "")
