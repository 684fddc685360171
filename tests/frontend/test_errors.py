"""Every mistake in the tile language: its own error, at the user's line.

Each case is a kernel with its mistake on the line marked `# here`.  `pytest -s` shows all messages.
"""

from __future__ import annotations

import copy
import linecache
import math
import pickle
import random
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import (
    ArgumentError,
    CarriedError,
    ControlFlowError,
    DTypeError,
    LanguageError,
    PointerError,
    ScopeError,
    ShapeError,
    SourceError,
    UserError,
)

X = np.zeros(64, np.float32)
N = 5


def f64_dtype(X, n):
    iris.store(X, iris.zeros((4,), "f64"))  # here


def unknown_dtype(X, n):
    x = iris.load(X).to("f31")  # here
    iris.store(X, x)


def three_elements(X, n):
    x = iris.arange(0, 3)  # here
    iris.store(X + x, 1.0)


def traced_shape(X, n):
    x = iris.zeros((n,))  # here
    iris.store(X, x)


def traced_arange(X, n):
    x = iris.arange(0, n)  # here
    iris.store(X + x, 1.0)


def shapes_that_do_not_fit(X, n):
    x = iris.arange(0, 4) + iris.arange(0, 8)  # here
    iris.store(X + x, 1.0)


def unknown_name(X, n):
    iris.store(X, undefined_name)  # here


def dtype_changes(X, n):
    total = iris.load(X)
    for i in range(n):
        total = total.to(iris.i32) + i  # here
    iris.store(X, total)


def shape_changes(X, n):
    tile = iris.zeros((4,))
    for i in range(n):
        tile = iris.zeros((8,)) + i  # here
    iris.store(X + iris.arange(0, 4), tile)


def carried_object(X, n):
    text = "a"
    for _ in range(n):
        text = text + "b"  # here
        iris.store(X, 1.0)


def offset_without_bounds(X, n):
    iris.tile_store(X + n, 0, 0, 8, iris.zeros((4, 4)))  # here


def tile_as_condition(X, n):
    if iris.arange(0, 4) < n:  # here
        iris.store(X, 1.0)


def tile_in_and(X, n):
    mask = iris.arange(0, 4) < n and n > 0  # here
    iris.store(X, 1.0, mask=mask)


def not_of_a_tile(X, n):
    mask = not (iris.arange(0, 4) < n)  # here
    iris.store(X, 1.0, mask=mask)


def outside_its_loop(X, n):
    for i in range(n):
        x = iris.load(X + i)
    iris.store(X, x + 1.0)  # here


def index_outside_its_loop(X, n):
    for i in range(n):
        iris.store(X + i, 0.0)
    iris.store(X + i, 1.0)  # here


def only_in_one_branch(X, n):
    if n > 2:
        x = iris.load(X)
    iris.store(X, x * 2)  # here


def break_under_a_condition(X, n):
    for i in range(n):
        if iris.load(X + i) > 0:
            break  # here
        iris.store(X + i, 1.0)


def return_in_a_traced_loop(X, n):
    for i in range(n):
        if n > 3:
            return  # here
        iris.store(X + i, 1.0)


def return_in_a_loop_under_a_condition(X, n):
    for i in range(2):
        if n > i:
            return  # here
    iris.store(X, 1.0)


def returns_nothing_in_one_branch(X, n):
    def number_or_nothing():
        if n > 3:  # here
            return 1.0
        return None

    iris.store(X, number_or_nothing())


def returns_another_dtype_in_one_branch(X, n):
    if n > 3:
        return iris.load(X + 1)
    if n > 2:
        return iris.load(X)
    return iris.load(X).to(iris.i32)  # here


def continue_in_a_traced_loop(X, n):
    for i in range(n):
        if i > N:
            continue  # here
        iris.store(X + i, 1.0)


def mixed_bases(X, n):
    iris.store(X + X, 1.0)  # here


def float_offset(X, n):
    iris.store(X + 1.5, 1.0)  # here


def pointer_as_number(X, n):
    iris.store(X, X * 2)  # here


def subscript(X, n):
    iris.store(X, X[n])  # here


def python_int_of_a_traced_value(X, n):
    iris.store(X, int(n))  # here


def python_list_index(X, n):
    table = [1, 2, 3]
    iris.store(X, table[n])  # here


def bitwise_of_floats(X, n):
    iris.store(X, iris.load(X) & 1.0)  # here


def float_shift(X, n):
    iris.store(X, iris.load(X) << 2)  # here


def dot_of_vectors(X, n):
    iris.store(X, iris.dot(iris.zeros((4,)), iris.zeros((4,))))  # here


def dot_that_does_not_fit(X, n):
    iris.store(X, iris.sum(iris.dot(iris.zeros((4, 8)), iris.zeros((4, 8)))))  # here


def wrong_axis(X, n):
    iris.store(X, iris.sum(iris.zeros((4,)), axis=1))  # here


def wrong_reshape(X, n):
    iris.store(X, iris.sum(iris.reshape(iris.zeros((4,)), (8,))))  # here


def returns_something(X, n):  # here
    return iris.load(X)


def failed_static_assert(X, n):
    iris.static_assert(N == 4, "N is four")  # here


def string_as_value(X, n):
    iris.store(X, "one")  # here


def unpacked_tile(X, n):
    a, b = iris.zeros((2,))  # here
    iris.store(X, a + b)


def different_dtypes_in_branches(X, n):
    x = iris.load(X)
    if n > 1:
        x = x.to(iris.i32)  # here
    iris.store(X, x)


def escapes_in_a_list(X, n):
    found = []
    for i in range(n):
        found.append(iris.load(X + i))  # here
    iris.store(X, found[0] + 1.0)


def matrix_operator(X, n):
    iris.store(X, iris.zeros((4, 4)) @ iris.zeros((4, 4)))  # here


def numpy_function(X, n):
    iris.store(X, np.exp(iris.load(X)))  # here


def changes_a_tile(X, n):
    x = iris.zeros((4,))
    x[0] = 1.0  # here


def attribute_of_a_tile(X, n):
    x = iris.zeros((4,))
    x.value = 3  # here


def attribute_of_a_pointer(X, n):
    X.offset = n  # here


def power_with_a_modulus(X, n):
    iris.store(X, pow(n, 2, 5))  # here


def power_of_a_pointer(X, n):
    iris.store(X, X**2)  # here


def misspelt_word(X, n):
    iris.stoer(X, 1.0)  # here


def python_minimum(X, n):
    iris.store(X, min(n, 3))  # here


def zero_step(X, n):
    for i in range(n, 0, 0):  # here
        iris.store(X + i, 1.0)


def unknown_keyword(X, n):
    iris.store(X, iris.load(X, cache_modifier=".cg"))  # here


def store_without_a_value(X, n):
    iris.store(X)  # here


def unknown_keyword_of_a_reduction(X, n):
    iris.store(X, iris.sum(iris.zeros((4,)), axes=0))  # here


def unknown_keyword_of_a_function(X, n):
    iris.store(X, iris.exp(1.0, fast=True))  # here


def arange_with_one_bound(X, n):
    iris.store(X + iris.arange(4), 1.0)  # here


def method_of_a_tile(X, n):
    x = iris.zeros((4,))
    iris.store(X, x.sum())  # here


def method_of_numpy(X, n):
    iris.store(X, iris.load(X).astype("f32"))  # here


def method_of_a_pointer(X, n):
    iris.store(X, X.load())  # here


def transposed(X, n):
    iris.store(X, iris.sum(iris.trans(iris.zeros((4, 4)))))  # here


def dtype_of_numpy(X, n):
    iris.store(X, iris.sum(iris.zeros((4,), iris.float32)))  # here


def dtype_called_as_in_numpy(X, n):
    iris.store(X, iris.sum(iris.zeros((4,), np.float32)))  # here


def range_of_iris(X, n):
    for i in iris.range(0, n):  # here
        iris.store(X + i, 1.0)


def exchange(X, n):
    iris.atomic_xchg(X, 1.0)  # here


def in_a_helper(X, n):
    def helper(x):
        return iris.maxmum(x, 0.0)  # here

    iris.store(X, helper(iris.load(X)))


def block_that_is_no_constant(X, n):
    x = iris.zeros((n * 4,))  # here
    iris.store(X, iris.sum(x))


def function_of_math(X, n):
    iris.store(X, math.sqrt(n))  # here


def rounded_by_python(X, n):
    iris.store(X, round(iris.load(X)))  # here


def floor_of_math(X, n):
    iris.store(X, math.floor(iris.load(X)))  # here


def formatted(X, n):
    print(f"{n:.2f}")  # here


def key_of_a_dict(X, n):
    iris.store(X, {n: 1}[n])  # here


def pointer_as_a_key(X, n):
    iris.store(X, {X: 1})  # here


def pointer_in_a_tuple(X, n):
    iris.store(X, 1.0 if X in (1, 2) else 2.0)  # here


def value_in_a_tuple(X, n):
    iris.store(X, 1.0 if n in (1, 2) else 2.0)  # here


def pointer_rounded(X, n):
    iris.store(X, round(X))  # here


def pointer_formatted(X, n):
    print(f"{X:.3}")  # here


def power_of_a_number_with_a_modulus(X, n):
    iris.store(X, pow(2, n, 5))  # here


def complex_of_a_traced_value(X, n):
    iris.store(X, complex(n))  # here


def array_of_numpy(X, n):
    iris.store(X, np.array([n, 1]))  # here


def choice_of_numpy(X, n):
    iris.store(X, np.where(n > 1, n, 1))  # here


def array_plus_a_tile(X, n):
    iris.store(X, np.zeros(3) + n)  # here


def numpy_function_of_a_pointer(X, n):
    iris.store(X, np.sqrt(X))  # here


def call_of_a_value(X, n):
    iris.store(X, n(1))  # here


def text_of_values(X, n):
    print("".join([n]))  # here


def in_pythons_library(X, n):
    iris.store(X, random.randint(0, n))  # here


def deleted_element(X, n):
    del n[0]  # here


def deleted_attribute(X, n):
    del n.value  # here


def written_away(X, n):
    pickle.dumps(n)  # here


def greatest_of_two_numbers(X, n):
    iris.store(X, iris.max(1, 2))  # here


def greatest_of_three_numbers(X, n):
    iris.store(X, iris.max(1, 2, 3))  # here


CASES: list[tuple[Callable[..., Any], type[UserError], str]] = [
    (f64_dtype, DTypeError, "Apple GPUs have no f64; use f32"),
    (unknown_dtype, DTypeError, "no dtype is called 'f31'"),
    (three_elements, ShapeError, "powers of two; 3 is not"),
    (traced_shape, ShapeError, "declare the parameter as n: iris.constexpr"),
    (traced_arange, ShapeError, "arange needs ints known while tracing"),
    (shapes_that_do_not_fit, ShapeError, "the shapes (4,) and (8,) do not fit together"),
    (unknown_name, LanguageError, "undefined_name"),
    (dtype_changes, CarriedError, "its dtype is f32 at first"),
    (shape_changes, CarriedError, "its shape is (4,) at first"),
    (carried_object, CarriedError, "a loop carries numbers, tiles and pointers, and tuples"),
    (offset_without_bounds, PointerError, "needs rows= and cols="),
    (tile_as_condition, ControlFlowError, "a condition is a scalar"),
    (tile_in_and, ControlFlowError, "for tiles write &"),
    (not_of_a_tile, ControlFlowError, "for tiles write ~"),
    (outside_its_loop, ScopeError, "x belongs to the loop at line"),
    (index_outside_its_loop, ScopeError, "i belongs to the loop at line"),
    (only_in_one_branch, ScopeError, "x has a value after only one of the branches"),
    (break_under_a_condition, ControlFlowError, "break cannot leave a traced loop"),
    (return_in_a_traced_loop, ControlFlowError, "return cannot leave a traced loop"),
    (return_in_a_loop_under_a_condition, ControlFlowError, "return cannot leave a traced loop"),
    (returns_nothing_in_one_branch, CarriedError, "the returned value is 1.0 or a NoneType"),
    (returns_another_dtype_in_one_branch, CarriedError, "the returned value becomes"),
    (continue_in_a_traced_loop, ControlFlowError, "continue cannot leave a traced loop"),
    (mixed_bases, PointerError, "an address has one base"),
    (float_offset, PointerError, "an offset is an integer, not f32"),
    (pointer_as_number, PointerError, "the pointer X is no number"),
    (subscript, PointerError, "a pointer is not indexed; use iris.load(X + offsets)"),
    (python_int_of_a_traced_value, ControlFlowError, "int() needs a number"),
    (python_list_index, ControlFlowError, "needs a number while the kernel is traced"),
    (bitwise_of_floats, DTypeError, "and is for integers or bools, not f32"),
    (float_shift, DTypeError, "shl is for integers, not f32"),
    (dot_of_vectors, ShapeError, "is no matrix"),
    (dot_that_does_not_fit, ShapeError, "do not multiply"),
    (wrong_axis, ShapeError, "an axis is an int from -1 to 0, not 1"),
    (wrong_reshape, ShapeError, "differ in dtype or number of elements"),
    (returns_something, LanguageError, "a kernel returns nothing"),
    (failed_static_assert, ArgumentError, "static_assert failed: N is four"),
    (string_as_value, LanguageError, "a str cannot be computed with"),
    (unpacked_tile, LanguageError, "cannot be iterated over or unpacked"),
    (different_dtypes_in_branches, CarriedError, "in the other branch"),
    (escapes_in_a_list, CarriedError, "found gets found[0] in a traced loop"),
    (matrix_operator, LanguageError, "write iris.dot(a, b)"),
    (numpy_function, LanguageError, "np.exp does not work on"),
    (changes_a_tile, LanguageError, "a tile is never changed"),
    (attribute_of_a_tile, LanguageError, "a tile is never changed"),
    (attribute_of_a_pointer, PointerError, "a pointer is never changed"),
    (power_with_a_modulus, LanguageError, "write x ** n % m"),
    (power_of_a_pointer, PointerError, "the pointer X is no number"),
    (misspelt_word, LanguageError, "iris has no 'stoer'; did you mean iris.store?"),
    (python_minimum, ControlFlowError, "iris.minimum"),
    (unknown_keyword, ArgumentError, "'cache_modifier'; write iris.load(pointer, mask=, other="),
    (store_without_a_value, ArgumentError, "'value'; write iris.store(pointer, value, mask=)"),
    (unknown_keyword_of_a_reduction, ArgumentError, "iris.sum(x, axis=, keepdims=, dtype=)"),
    (unknown_keyword_of_a_function, ArgumentError, "'fast'; write iris.exp(x)"),
    (arange_with_one_bound, ArgumentError, "'stop'; write iris.arange(start, stop)"),
    (method_of_a_tile, LanguageError, "a tile or scalar has no .sum; write iris.sum(x)"),
    (method_of_numpy, LanguageError, "has no .astype; write x.to(dtype)"),
    (method_of_a_pointer, LanguageError, "a pointer has no .load; write iris.load(x)"),
    (transposed, LanguageError, "iris has no 'trans'; write x.T or iris.transpose(x, axes)"),
    (dtype_of_numpy, LanguageError, "iris has no 'float32'; write iris.f32"),
    (dtype_called_as_in_numpy, DTypeError, "no dtype is called 'float32'; write iris.f32"),
    (range_of_iris, LanguageError, "iris has no 'range'; write range(...)"),
    (exchange, LanguageError, "iris has no 'atomic_xchg'; write iris.atomic_exchange"),
    (in_a_helper, LanguageError, "iris has no 'maxmum'; did you mean iris.maximum?"),
    (block_that_is_no_constant, ShapeError, "declare the parameter as n: iris.constexpr"),
    (function_of_math, ControlFlowError, "math.sqrt(...) needs a number while the kernel is"),
    (rounded_by_python, LanguageError, "write iris.round(x)"),
    (floor_of_math, LanguageError, "write iris.floor(x)"),
    (formatted, LanguageError, "print it with iris.device_print"),
    (key_of_a_dict, LanguageError, "a traced i32 is no key of a dict or set"),
    (pointer_as_a_key, PointerError, "the pointer X is no number"),
    (pointer_in_a_tuple, PointerError, "the pointer X is no number"),
    (value_in_a_tuple, ControlFlowError, "(x == a) | (x == b)"),
    (pointer_rounded, PointerError, "the pointer X is no number"),
    (pointer_formatted, LanguageError, "unsupported format string passed to Pointer"),
    (power_of_a_number_with_a_modulus, LanguageError, "for ** or pow(): 'int', 'Traced', 'int'"),
    (complex_of_a_traced_value, ControlFlowError, "complex() needs a number"),
    (array_of_numpy, LanguageError, "NumPy makes no array of a traced i32"),
    (choice_of_numpy, LanguageError, "NumPy makes no array of a traced bool"),
    (array_plus_a_tile, LanguageError, "a ndarray cannot be computed with in a kernel"),
    (numpy_function_of_a_pointer, LanguageError, "np.sqrt does not work on the pointer X"),
    (call_of_a_value, LanguageError, "'Traced' object is not callable"),
    (text_of_values, LanguageError, "compute with operators and iris's words"),
    (in_pythons_library, ControlFlowError, "needs a number while the kernel is traced"),
    (deleted_element, LanguageError, "a tile is never changed"),
    (deleted_attribute, LanguageError, "a tile is never changed"),
    (written_away, LanguageError, "cannot be written or sent away"),
    (greatest_of_two_numbers, ShapeError, "1 has no axes; for max of two values, element by"),
    (greatest_of_three_numbers, ShapeError, "write iris.maximum(a, b)"),
    (zero_step, ControlFlowError, "the step of a range must not be 0"),
]


def marked_line(function: Callable[..., Any]) -> int:
    first = function.__code__.co_firstlineno
    with open(__file__) as file:
        lines = file.readlines()
    return next(i for i in range(first, first + 10) if "# here" in lines[i - 1])


@pytest.mark.parametrize(
    ("function", "kind", "message"), CASES, ids=lambda x: getattr(x, "__name__", "")
)
def test_a_mistake_is_told_at_its_line(
    function: Callable[..., Any], kind: type[UserError], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        iris.kernel(function)[1](X.copy(), N)
    error = caught.value
    print(f"\n{type(error).__name__}: {error}")
    assert type(error) is kind
    assert message in error.message
    assert error.spot is not None
    assert (error.spot.file, error.spot.line) == (__file__, marked_line(function))
    assert f"{__file__}:{error.spot.line}:" in str(error)
    assert str(error).splitlines()[-1].endswith("^")


# Mistakes in a launch.


@iris.kernel
def plain(X, n, B: iris.constexpr):
    iris.store(X, n)


@iris.jit
def function_of_arrays(x):
    return x + 1


@pytest.mark.parametrize(
    ("launch", "kind", "message"),
    [
        (lambda: plain[1](X, 3), ArgumentError, "plain needs the constexpr 'B'"),
        (lambda: plain[1](X, B=1), ArgumentError, "plain needs the argument 'n'"),
        (lambda: plain[1](X, 3, 1, 2), ArgumentError, "plain takes 3 arguments (X, n, B), not 4"),
        (lambda: plain[1](X, 3, B=1, C=2), ArgumentError, "no parameter 'C'; it has X, n, B"),
        (lambda: plain[1](X, 3, B=1, n=2), ArgumentError, "was given 'n' twice"),
        (lambda: plain[1](X.astype(float), 3, B=1), DTypeError, "X is float64"),
        (lambda: plain[1](X.astype(complex), 3, B=1), DTypeError, "X has the dtype complex128"),
        (lambda: plain[1](X, "3", B=1), ArgumentError, "n is a str"),
        (lambda: plain[1](X, None, B=1), LanguageError, "a NoneType cannot be computed with"),
        (lambda: plain[1]([1.0], 3, B=1), ArgumentError, "X is a list"),
        (lambda: plain[1](X, 3, B=[1]), ArgumentError, "the constexpr B must be hashable"),
        (lambda: plain[1](5, 3, B=1), ArgumentError, "store takes an array argument"),
        (lambda: plain[1, 2, 3, 4](X, 3, B=1), ArgumentError, "a grid is"),
        (lambda: plain[1.5](X, 3, B=1), ArgumentError, "a grid is"),
        (lambda: plain[-1](X, 3, B=1), ArgumentError, "a grid is"),
        (lambda: plain(X, 3, B=1), ArgumentError, "launch the kernel with a grid: plain[grid]"),
        (lambda: plain[1](X, 2**70, B=1), ArgumentError, "n is over 64 bits"),
        (lambda: plain[1](X, 3, B=1, num_warps=4), ArgumentError, "write num_simdgroups=: a simd"),
        (lambda: plain[1](X, 3, B=1, num_ctas=4), ArgumentError, "'num_ctas'; it has X, n, B;"),
        (lambda: plain[1](X, 3, B=1, num_stages=0), ArgumentError, "num_stages is a number from"),
        (lambda: plain[1](X, 3, B=1, num_simdgrups=4), ArgumentError, "mean num_simdgroups?"),
        (lambda: plain[1](X, [1.0, 2.0], B=1), ArgumentError, "pass np.array(n, np.float32)"),
        (lambda: plain[1](X, iris.f32, B=1), ArgumentError, "as n: iris.constexpr"),
        (lambda: plain[1](X, np.float32, B=1), ArgumentError, "as n: iris.constexpr"),
        (lambda: function_of_arrays[1](X), ArgumentError, "made with @iris.kernel"),
        (lambda: plain.lower(X, 3, B=1), ArgumentError, "say grid= to lower and prepare"),
        (lambda: plain.prepare(X, 3, B=1), ArgumentError, "say grid= to lower and prepare"),
        (lambda: plain[1](X, 3, B=1, grid=2), ArgumentError, "the grid goes in brackets"),
        (lambda: plain.warmup(X, 3, B=1, grid=2), ArgumentError, "the grid goes in brackets"),
        (lambda: iris.kernel(), ArgumentError, "write @iris.kernel without parentheses"),
        (lambda: iris.kernel(num_warps=2), ArgumentError, "write @iris.kernel without parenth"),
    ],
)
def test_mistakes_in_a_launch(
    launch: Callable[[], None], kind: type[UserError], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        launch()
    print(f"\n{type(caught.value).__name__}: {caught.value}")
    assert type(caught.value) is kind
    assert message in caught.value.message
    assert caught.value.spot is not None
    assert caught.value.spot.file == __file__


def test_a_read_only_array_is_not_written() -> None:
    frozen = np.zeros(4, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ArgumentError, match="X is written to, but its array is read-only"):
        plain[1](frozen, 3, B=1)


def test_recursion() -> None:
    @iris.kernel
    def again(X, n):
        again(X, n)

    with pytest.raises(LanguageError, match="again calls itself"):
        again[1](X, 1)


def test_a_kernel_without_source() -> None:
    scope: dict[str, Any] = {"iris": iris}
    exec("def made(X, n):\n    iris.store(X, n)\n", scope)
    with pytest.raises(SourceError, match="Python cannot give the source of this function"):
        iris.kernel(scope["made"])[1](X, 1)
    with pytest.raises(SourceError, match="a kernel is made of a function"):
        iris.kernel(3)  # type: ignore[arg-type]


def test_a_kernel_as_a_method() -> None:
    class Layer:
        @iris.kernel
        def scaled(self, X, n):
            iris.store(X, n)

    with pytest.raises(ArgumentError, match="scaled is compiled and cannot be a method of Layer"):
        Layer().scaled[1](X, 1)


# Text that is deeper than functions usually recur.

ELIFS = "if n == 0:\n        a = a\n" + "".join(
    f"    elif n == {k}:\n        a = a + {k}\n" for k in range(1, 150)
)


def kernel_of(text: str, folder: Path, parameter: str = "n") -> Any:
    """A kernel from a file, which changes the variable `a` by a text."""
    path = folder / "kernel_of_text.py"
    path.write_text(
        f"import iris\n\n\n@iris.kernel\ndef f(X, {parameter}):\n"
        f"    a = iris.load(X)\n    {text}\n    iris.store(X, a)\n"
    )
    linecache.checkcache(str(path))
    return runpy.run_path(str(path))["f"]


@pytest.mark.parametrize(
    ("text", "parameter", "expected"),
    [
        ("a = " + " + ".join(["a"] * 900), "n", 900),
        ("a = " + "-" * 500 + "a", "n", 1),
        ("a = a" + ".to(iris.f32)" * 600, "n", 1),
        (ELIFS, "n: iris.constexpr", 6),
        ("a = " + "".join(["0 if n == 7 else "] * 100) + "2", "n", 2),
    ],
)
def test_deep_syntax(text: str, parameter: str, expected: int, tmp_path: Path) -> None:
    x = np.ones(1, np.float32)
    limit = sys.getrecursionlimit()
    kernel_of(text, tmp_path, parameter)[1](x, N, device="interp")
    assert x[0] == expected
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize(
    ("text", "line"), [(ELIFS, 263), ("a = " + "".join(["0 if n == 7 else "] * 200) + "2", 7)]
)
def test_too_many_conditions_within_each_other(text: str, line: int, tmp_path: Path) -> None:
    with pytest.raises(ControlFlowError, match="more than 128 traced loops and branches") as caught:
        kernel_of(text, tmp_path)[1](X.copy(), N)
    assert caught.value.spot is not None
    assert caught.value.spot.line == line


def test_the_language_outside_a_kernel() -> None:
    with pytest.raises(LanguageError, match="works inside a kernel only"):
        iris.program_id(0)


def test_names_that_do_not_exist_stay_attribute_errors() -> None:
    assert not hasattr(iris, "trans")
    with pytest.raises(AttributeError, match=r"iris has no 'float16'; write iris\.f16"):
        iris.float16  # noqa: B018

    @iris.kernel
    def probes(X, n):
        iris.store(X, 1.0 if hasattr(iris.load(X), "sum") else 2.0)

    out = np.zeros(1, np.float32)
    probes[1](out, 1)
    assert out[0] == 2


def test_what_never_changes_is_its_own_copy() -> None:
    @iris.kernel
    def copies(X, n):
        iris.store(copy.copy(X) + np.int32(1), copy.deepcopy([n])[0])

    out = np.zeros(2, np.float32)
    copies[1](out, 4)
    assert out.tolist() == [0, 4]


def unknown_constant(constants: dict[str, Any]) -> Any:
    return constants["M"]  # here


def no_argument() -> int:
    return 1


def grid_of(sizes: Any) -> Callable[[dict[str, Any]], Any]:
    def grid(constants: dict[str, Any]) -> Any:  # here
        return sizes

    return grid


@pytest.mark.parametrize(
    "use", [lambda g: plain[g](X, 3, B=1), lambda g: plain.lower(X, 3, B=1, grid=g)]
)
def test_a_grid_function_that_fails(use: Callable[..., Any]) -> None:
    message = "the grid function unknown_constant failed: KeyError: 'M'; it is given .*X, n, B"
    with pytest.raises(ArgumentError, match=message) as caught:
        use(unknown_constant)
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.spot is not None
    assert caught.value.spot.line == marked_line(unknown_constant)
    with pytest.raises(ArgumentError, match="no_argument failed: TypeError") as caught:
        use(no_argument)
    assert caught.value.spot is not None and caught.value.spot.file == __file__


@pytest.mark.parametrize(
    "sizes", ["3", 2.0, (1, 2, 3, 4), -1, None, True, (), (1.0,), {1, 2}, np.array([1, 2]), 2**40]
)
def test_a_grid_function_of_no_grid(sizes: Any) -> None:
    with pytest.raises(ArgumentError, match="the grid function grid: a grid ") as caught:
        plain[grid_of(sizes)](X, 3, B=1)
    assert caught.value.spot is not None
    assert caught.value.spot.line == marked_line(grid_of)


@pytest.mark.parametrize(("sizes", "expected"), [(0, 0), (np.int64(1), 3), ((np.int32(1), 1), 3)])
def test_a_grid_function_of_numpys_integers(sizes: Any, expected: int) -> None:
    out = np.zeros(1, np.float32)
    plain[grid_of(sizes)](out, 3, B=1)
    assert out[0] == expected


def test_a_grid_may_be_a_list() -> None:
    out = np.zeros(1, np.float32)
    plain[[1, 1]](out, 3, B=1)
    assert out[0] == 3
    plain[lambda constants: [constants["B"]]](out, 4, B=1)
    assert out[0] == 4
