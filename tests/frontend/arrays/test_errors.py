"""Every mistake in a function of arrays: its own error, at the user's line.

Each case is a function with its mistake on the line marked `# here`.  `pytest -s` shows all
messages.
"""

from __future__ import annotations

import collections
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import (
    ArgumentError,
    ControlFlowError,
    DTypeError,
    ExponentError,
    IndexingError,
    LanguageError,
    RangeError,
    ScopeError,
    ShapeError,
    UserError,
)
from tracing_arrays import trace

X = np.ones((4, 3), np.float32)
I = np.array([0, 2], np.int32)  # noqa: E741
TABLE = np.arange(10.0) ** 2
kept: list[Any] = []


# What is an array already.


def array_of_an_array(x, i):
    return np.array(x) + 1  # here


def asarray_in_a_dtype(x, i):
    return np.asarray(x, dtype=np.float16)  # here


def scalar_type(x, i):
    return np.float32(i) * x[0, 0]  # here


def array_of_a_list(x, i):
    rows = [x[0], x[1]]
    return np.array(rows)  # here


# What traced arrays and `.at` have not.


def maximum_at(x, i):
    return x.at[i].max(3)  # here


def unknown_at(x, i):
    return x.at[i].foo(3)  # here


def at_without_an_index(x, i):
    return x.at.set(3)  # here


def counted(x, i):
    return np.bincount(i, minlength=4)  # here


def edges_of_data(x, i):
    return np.histogram(x)  # here


# What Python needs a number or an element for.


def condition(x, i):
    if x.sum() > 0:  # here
        return x
    return -x


def condition_of_an_array(x, i):
    return x if x > 0 else -x  # here


def loop_condition(x, i):
    while x.max() > 1:  # here
        x = x / 2
    return x


def in_and(x, i):
    return x.any() and x.all()  # here


def python_max(x, i):
    return max(x[0, 0], x[1, 1])  # here


def loop_over_a_number(x, i):
    for row in x[0, 0]:  # here
        x = x + row
    return x


def range_of_a_number(x, i):
    for _ in range(i[0]):  # here
        x = x + 1
    return x


def float_of_a_number(x, i):
    return x * float(x[0, 0])  # here


def int_of_a_number(x, i):
    return x * int(i[0])  # here


def shape_of_a_number(x, i):
    return x.reshape(i[0], -1)  # here


def zeros_of_a_number(x, i):
    return np.zeros(i[0]) + x  # here


def membership(x, i):
    return x if 1.0 in x else -x  # here


def length_of_a_number(x, i):
    return len(x[0, 0])  # here


def rounded_by_python(x, i):
    return round(x[0, 0], 2)  # here


def function_of_math(x, i):
    return math.sqrt(x[0, 0])  # here


def truncated_by_math(x, i):
    return math.trunc(x[0, 0])  # here


def formatted(x, i):
    print(f"{x[0, 0]:.2f}")  # here
    return x


def key_of_a_dict(x, i):
    return {x: 1}  # here


def place_in_a_list(x, i):
    return [2, 3][i[0]]  # here


def pickled(x, i):
    pickle.dumps(x)  # here
    return x


# What NumPy does not ask a traced array for.


def concrete_indexed(x, i):
    return TABLE[i]  # here


def concrete_taken(x, i):
    return np.take(TABLE, i)  # here


def array_of_traced(x, i):
    return np.array([x[0, 0], x[1, 1]])  # here


def asarray_of_traced(x, i):
    return np.asarray(x)  # here


def full_of_traced(x, i):
    return np.full((2,), x[0, 0])  # here


def full_of_traced_in_a_dtype(x, i):
    return np.full((2,), x[0, 0], np.float32)  # here


def added_to_a_concrete(x, i):
    total = np.zeros((4, 3), np.float32)
    total += x  # here
    return total


def assigned_to_a_concrete(x, i):
    rows = np.zeros((4, 3), np.float32)
    rows[:] = x  # here
    return rows


def number_assigned_to_a_concrete(x, i):
    row = np.zeros(3, np.float32)
    row[0] = x[0, 0]  # here
    return row


def assigned_at_traced_places(x, i):
    row = np.zeros(3, np.float32)
    row[i] = 1  # here
    return row


def concatenated_by_r(x, i):
    return np.r_[x, x]  # here


def method_of_a_concrete(x, i):
    return TABLE[:4].dot(x)  # here


def permuted(x, i):
    return np.random.permutation(x)  # here


def masked_array(x, i):
    return x + np.ma.array(TABLE[:3])  # here


def copied_to(x, i):
    rows = np.zeros((4, 3), np.float32)
    np.copyto(rows, x)  # here
    return rows


def other_shape(x, i):
    x.shape = (12,)  # here
    return x


def out_of_a_function(x, i):
    return np.sum(x, axis=0, out=np.zeros(3, np.float32))  # here


def out_of_a_ufunc(x, i):
    return np.exp(x, out=np.zeros((4, 3), np.float32))  # here


def where_of_a_ufunc(x, i):
    return np.exp(x, where=x > 0)  # here


# What changes an array.


def item_assigned(x, i):
    x[0] = 1  # here
    return x


def item_added_to(x, i):
    x[0] += 1  # here
    return x


def at_assigned(x, i):
    x.at[0] = 1  # here
    return x


def sorted_in_place(x, i):
    x.sort()  # here
    return x


def put(x, i):
    np.put(x, [0], 1)  # here
    return x


def added_at(x, i):
    np.add.at(x, i, 1)  # here
    return x


def subtract_at(x, i):
    np.subtract.at(x, i, 1)  # here
    return x


def multiply_at(x, i):
    np.multiply.at(x, i, 2)  # here
    return x


def digitized(x, i):
    return np.digitize(x, np.arange(3.0))  # here


def in_place_of_no_copy(x, i):
    y = x.astype(np.float32, copy=False)
    y += 1  # here
    return x


def in_place_of_an_element(x, i):
    y = x * 1
    element = y.reshape(-1)[0, ...]
    element += 1  # here
    return y


def in_place_of_a_squeezed_array(x, i):
    y = x.reshape(-1)[:1] * 1
    element = np.squeeze(y)
    element += 1  # here
    return y


def in_place_of_another_dtype(x, i):
    i += 1.5  # here
    return i


def in_place_of_another_shape(x, i):
    row = x[0]
    row += x  # here
    return row


# Shapes that depend on the data.


def mask(x, i):
    return x[x > 0]  # here


def mask_of_rows(x, i):
    return x[x[:, 0] > 0, :]  # here


def nonzero(x, i):
    return np.nonzero(x)  # here


def where_of_one(x, i):
    return np.where(x > 0)  # here


def unique(x, i):
    return np.unique(i)  # here


def traced_slice(x, i):
    return x[i[0] : i[0] + 2]  # here


def traced_repeats(x, i):
    return np.repeat(x[:2], i, axis=0)  # here


# What there is not.


def sort(x, i):
    return np.sort(x)  # here


def median(x, i):
    return np.median(x)  # here


def unknown_function(x, i):
    return np.correlate(x[0], x[1])  # here


def unknown_linalg(x, i):
    return np.linalg.inv(x[:3])  # here


def unknown_ufunc(x, i):
    return np.gcd(i, 2)  # here


def unknown_method_of_a_ufunc(x, i):
    return np.add.reduceat(x, [0, 1])  # here


def unknown_reduction(x, i):
    return np.subtract.reduce(x)  # here


def unknown_option(x, i):
    return np.unwrap(x, period=2)  # here


def unsupported_option(x, i):
    return np.cumsum(x, axis=0).sum(axis=0).reshape(3, 1, order="Z")  # here


def order_of_memory(x, i):
    return np.reshape(x.T, -1, order="A")  # here


def order_of_memory_of_a_method(x, i):
    return x.T.ravel("K")  # here


def safe_casting(x, i):
    return x.astype(np.float16, casting="safe")  # here


def mask_that_does_not_fit(x, i):
    return x[[True, False, True]]  # here


def shifts_that_do_not_fit(x, i):
    return np.roll(x, (1, 2, 3), (0, 1))  # here


def option_of_a_ufunc(x, i):
    return np.less(x, 1, dtype=bool)  # here


def allclose(x, i):
    return np.allclose(x, x)  # here


def item(x, i):
    return x[0, 0].item()  # here


def flat(x, i):
    return x.flat[3]  # here


def no_such_method(x, i):
    return x.argsort()  # here


def tile_language(x, i):
    return iris.exp(x)  # here


def tile_language_of_shapes(x, i):
    return iris.zeros((3,)) + x  # here


def text(x, i):
    return x + "one"  # here


def nothing(x, i):
    return x == None  # noqa: E711  # here


# Dtypes.


def cast_to_f64(x, i):
    return x.astype(np.float64)  # here


def sum_in_f64(x, i):
    return np.sum(x, dtype="float64")  # here


def cast_to_complex(x, i):
    return x.astype(complex)  # here


def ambiguous_dtype(x, i):
    return x.astype("i8")  # here


def unknown_dtype(x, i):
    return x.astype("f31")  # here


def bits_of_floats(x, i):
    return x & 1  # here


def minus_of_bools(x, i):
    return -(x > 0)  # here


def difference_of_bools(x, i):
    return (x > 0) - (x < 0)  # here


def number_out_of_range(x, i):
    return i.astype(np.uint8) + 300  # here


def wide_number(x, i):
    return i + 2**40  # here


def complex_table(x, i):
    return x + np.array([1j])  # here


def float_index(x, i):
    return x[x[:, 0]]  # here


def float_exponent_of_integers(x, i):
    return i**i  # here


def float_into_integers(x, i):
    return i.at[0].set(1.5)  # here


# Shapes that do not fit.


def shapes_that_do_not_fit(x, i):
    return x + x[:2]  # here


def inner_sizes(x, i):
    return x @ x  # here


def wrong_reshape(x, i):
    return x.reshape(5, -1)  # here


def wrong_axis(x, i):
    return x.sum(axis=2)  # here


def axis_twice(x, i):
    return x.sum(axis=(0, -2))  # here


def index_out_of_range(x, i):
    return x[4]  # here


def places_out_of_range(x, i):
    return x[:, [0, 3]]  # here


def too_many_indices(x, i):
    return x[0, 0, 0]  # here


def concatenated_wrongly(x, i):
    return np.concatenate([x, x[:, :2]])  # here


def stacked_wrongly(x, i):
    return np.stack([x, x[0]])  # here


def maximum_of_nothing(x, i):
    return x[:0].max(axis=0)  # here


def wrong_einsum(x, i):
    return np.einsum("ij,jk->ik", x, x)  # here


def einsum_of_nothing(x, i):
    return np.einsum("ij->ik", x)  # here


def split_unevenly(x, i):
    return np.split(x, 3)  # here


def wrong_update(x, i):
    return x.at[:2].set(x)  # here


# Values of another trace.


def keeps(x, i):
    kept.append(x + 1)
    return x


def of_another_trace(x, i):
    return x + kept[0]  # here


def through_a_helper(x, i):
    def helper(y):
        return np.sort(y)  # here

    return helper(x)


CASES: list[tuple[Callable[..., Any], type[UserError], str]] = [
    (array_of_an_array, LanguageError, "x is an array already; leave np.array out, or write "),
    (asarray_in_a_dtype, LanguageError, "x is an array already; write x.astype(np.float16)"),
    (scalar_type, LanguageError, "i is an array already; write i.astype(np.float32)"),
    (array_of_a_list, LanguageError, "np.stack([a, b])"),
    (maximum_at, LanguageError, "x.at[index].set(np.maximum(x[index], values)) does it"),
    (unknown_at, LanguageError, "x.at[index] has .set(values) and .add(values), not .foo"),
    (at_without_an_index, LanguageError, "x.at takes an index first: x.at[index].set(...)"),
    (counted, LanguageError, "np.zeros(n, np.int32, like=x).at[x].add(1)"),
    (edges_of_data, ArgumentError, "give range=(low, high), or the edges"),
    (condition, ControlFlowError, "choose with np.where(condition, x, y)"),
    (condition_of_an_array, ControlFlowError, "a condition is one bool, but this is a traced"),
    (loop_condition, ControlFlowError, "is known only when it runs"),
    (in_and, ControlFlowError, "combine with & | ~"),
    (python_max, ControlFlowError, "is known only when it runs"),
    (loop_over_a_number, ArgumentError, "no axes to iterate over"),
    (range_of_a_number, ControlFlowError, "needs a number while the function is traced"),
    (float_of_a_number, ControlFlowError, "float() needs a number"),
    (int_of_a_number, ControlFlowError, "int() needs a number"),
    (shape_of_a_number, ControlFlowError, "name an argument in static_argnames"),
    (zeros_of_a_number, ControlFlowError, "a size or a range needs a number"),
    (membership, ControlFlowError, "np.any(x == item)"),
    (length_of_a_number, ArgumentError, "no len()"),
    (rounded_by_python, ControlFlowError, "np.round(x)"),
    (function_of_math, ControlFlowError, "np.sqrt(x)"),
    (truncated_by_math, ControlFlowError, "np.trunc(x)"),
    (formatted, ControlFlowError, "the format '.2f' needs a number"),
    (key_of_a_dict, LanguageError, "no key of a dict"),
    (place_in_a_list, ControlFlowError, "iris.asarray(table)[index]"),
    (pickled, LanguageError, "cannot be written to a file"),
    (number_assigned_to_a_concrete, ControlFlowError, "iris.asarray(table).at[index].set(values)"),
    (assigned_at_traced_places, LanguageError, "iris.asarray(table).at[index].set(values)"),
    (concatenated_by_r, LanguageError, "np.concatenate"),
    (method_of_a_concrete, LanguageError, "np.dot(table, a)"),
    (permuted, LanguageError, "has no elements while the function is traced"),
    (masked_array, LanguageError, "is a masked array, whose mask would be lost"),
    (other_shape, LanguageError, "write x = x.reshape(shape)"),
    (concrete_indexed, LanguageError, "iris.asarray(table)[index]"),
    (concrete_taken, LanguageError, "iris.asarray(table)[index]"),
    (array_of_traced, LanguageError, "put together with np.stack"),
    (asarray_of_traced, LanguageError, "has no elements while the function is traced"),
    (full_of_traced, LanguageError, "has no elements while the function is traced"),
    (full_of_traced_in_a_dtype, LanguageError, "np.copyto changes an array"),
    (added_to_a_concrete, LanguageError, "np.add cannot write to out="),
    (assigned_to_a_concrete, LanguageError, "has no elements while the function is traced"),
    (copied_to, LanguageError, "np.copyto changes an array"),
    (out_of_a_function, LanguageError, "np.sum cannot write to out="),
    (out_of_a_ufunc, LanguageError, "np.exp cannot write to out="),
    (where_of_a_ufunc, LanguageError, "write np.where(condition, np.exp(...), other)"),
    (item_assigned, LanguageError, "x = x.at[index].set(values)"),
    (item_added_to, LanguageError, "x = x.at[index].set(values)"),
    (at_assigned, LanguageError, "write x = x.at[index].set(values)"),
    (sorted_in_place, LanguageError, ".sort changes an array"),
    (put, LanguageError, "np.put changes an array"),
    (added_at, LanguageError, "write x.at[index].add(values)"),
    (subtract_at, LanguageError, "write x.at[index].add(-values)"),
    (multiply_at, LanguageError, "where no index repeats, x.at[index].set(...)"),
    (digitized, LanguageError, "(edges <= x[..., None]).sum(-1)"),
    (in_place_of_no_copy, LanguageError, "by another name or through a view"),
    (in_place_of_an_element, LanguageError, "by another name or through a view"),
    (in_place_of_a_squeezed_array, LanguageError, "by another name or through a view"),
    (in_place_of_another_dtype, DTypeError, "write x = x + y instead of x += y"),
    (in_place_of_another_shape, ShapeError, "stays of its shape"),
    (mask, LanguageError, "np.where(mask, x, other) keeps all elements"),
    (mask_of_rows, LanguageError, "how many elements a mask chooses depends on the data"),
    (nonzero, LanguageError, "np.nonzero gives an array whose shape depends on the data"),
    (where_of_one, LanguageError, "np.where of one argument"),
    (unique, LanguageError, "shape depends on the data"),
    (traced_slice, ShapeError, "x[start + np.arange(count)]"),
    (traced_repeats, ShapeError, "repeats must be known while tracing"),
    (sort, LanguageError, "np.sort needs an order of the elements"),
    (median, LanguageError, "np.median needs an order of the elements"),
    (unknown_function, LanguageError, "np.correlate is not supported for traced arrays"),
    (unknown_linalg, LanguageError, "np.linalg.inv is not supported"),
    (unknown_ufunc, LanguageError, "np.gcd is not supported"),
    (unknown_method_of_a_ufunc, LanguageError, "np.add.reduceat is not supported"),
    (
        unknown_reduction,
        LanguageError,
        "np.subtract.reduce is not supported for traced arrays; reduce is there of add, fmax, "
        "fmin, logical_and, logical_or, maximum, minimum, multiply. Of others, write a loop",
    ),
    (unknown_option, LanguageError, "np.unwrap is not supported"),
    (unsupported_option, ArgumentError, "an order is 'C' or 'F', not 'Z'"),
    (order_of_memory, ArgumentError, "order='A' depends on how an array lies in memory"),
    (order_of_memory_of_a_method, ArgumentError, "order='K' depends on how an array lies"),
    (safe_casting, LanguageError, "casting='safe' is not supported"),
    (
        mask_that_does_not_fit,
        IndexingError,
        "a mask of the shape (3,) does not fit axes of (4,)",
    ),
    (shifts_that_do_not_fit, ShapeError, "3 shifts do not go with 2 axes"),
    (option_of_a_ufunc, ArgumentError, "got an unexpected keyword argument 'dtype'"),
    (allclose, LanguageError, "np.isclose(a, b).all()"),
    (item, LanguageError, ".item needs the elements"),
    (flat, LanguageError, ".flat is about memory"),
    (no_such_method, LanguageError, ".argsort needs an order of the elements"),
    (tile_language, LanguageError, "the tile language computes with tiles"),
    (tile_language_of_shapes, LanguageError, "NumPy's functions, np.zeros and so on"),
    (text, DTypeError, "a str cannot be computed with"),
    (nothing, DTypeError, "a NoneType cannot be computed with"),
    (cast_to_f64, DTypeError, "Apple GPUs have no float64; use np.float32"),
    (sum_in_f64, DTypeError, "Apple GPUs have no float64; use np.float32"),
    (cast_to_complex, DTypeError, "not of complex128"),
    (ambiguous_dtype, DTypeError, "write np.int8 or np.int64"),
    (unknown_dtype, DTypeError, "no dtype is called 'f31'"),
    (bits_of_floats, DTypeError, "and is for integers or bools, not f32"),
    (minus_of_bools, DTypeError, "the negation of a bool is ~x"),
    (difference_of_bools, DTypeError, "the difference of bools is a ^ b"),
    (number_out_of_range, RangeError, "300 does not fit u8"),
    (wide_number, RangeError, "does not fit i32"),
    (complex_table, DTypeError, "not of complex128"),
    (float_index, IndexingError, "an index is an integer"),
    (float_exponent_of_integers, ExponentError, "x.astype(np.float32) ** y"),
    (float_into_integers, DTypeError, "f32 does not go into an array of i32"),
    (shapes_that_do_not_fit, ShapeError, "the shapes (4, 3) and (2, 3) do not fit together"),
    (inner_sizes, ShapeError, "their inner sizes differ"),
    (wrong_reshape, ShapeError, "do not fit the shape (5, -1)"),
    (wrong_axis, IndexingError, "there is no axis 2: there are axes -2 to 1"),
    (axis_twice, ShapeError, "an axis is given twice"),
    (index_out_of_range, IndexingError, "axis 0 of size 4 has no index 4"),
    (places_out_of_range, IndexingError, "axis 1 of size 3 has no index 3"),
    (too_many_indices, IndexingError, "2 axes have no 3 indices"),
    (concatenated_wrongly, ShapeError, "do not fit along axis 0"),
    (stacked_wrongly, ShapeError, "do not stack"),
    (maximum_of_nothing, ShapeError, "of no elements has no value"),
    (wrong_einsum, ShapeError, "the axis j has the sizes 3 and 4"),
    (einsum_of_nothing, ArgumentError, "no array has the axis k"),
    (split_unevenly, ShapeError, "does not split into 3 equal parts"),
    (wrong_update, ShapeError, "do not fit together"),
    (of_another_trace, ScopeError, "was traced in another call of keeps"),
    (through_a_helper, LanguageError, "np.sort needs an order"),
]


def marked_line(function: Callable[..., Any]) -> int:
    first = function.__code__.co_firstlineno
    with open(__file__) as file:
        lines = file.readlines()
    return next(i for i in range(first, first + 10) if "# here" in lines[i - 1])


@pytest.fixture(autouse=True)
def another_trace() -> None:
    kept.clear()
    trace(keeps, X, I)


@pytest.mark.parametrize(
    ("function", "kind", "message"), CASES, ids=lambda x: getattr(x, "__name__", "")
)
def test_a_mistake_is_told_at_its_line(
    function: Callable[..., Any], kind: type[UserError], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        trace(function, X, I)
    error = caught.value
    print(f"\n{type(error).__name__}: {error}")
    assert type(error) is kind
    assert message in error.message
    assert error.spot is not None
    assert (error.spot.file, error.spot.line) == (__file__, marked_line(function))
    assert str(error).splitlines()[-1].endswith("^")


def test_a_traced_array_after_its_trace() -> None:
    for use in (lambda x: x + 1, lambda x: np.sum(x), lambda x: x[0], lambda x: x.at[0].set(1)):
        with pytest.raises(ScopeError, match="in a call that has ended") as caught:
            use(kept[0])
        assert caught.value.spot is not None and caught.value.spot.file == __file__
    assert kept[0].shape == (4, 3)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda x: pow(x, 2, 5), "pow takes no modulus here; write x ** n % m"),
        (lambda x: pow(2, x, 5), "unsupported operand type(s) for ** or pow()"),
        (lambda x: next(x), "'TracedArray' object is not an iterator; compute with operators"),
        (lambda x: ord(x), "ord() expected string of length 1"),
        (lambda x: x(), "'TracedArray' object is not callable"),
        (lambda x: "".join([x]), "expected str instance, TracedArray found"),
        (lambda x: x.__delitem__(0), "np.delete makes another"),
        (lambda x: setattr(x, "foo", 1), "has no attribute 'foo'"),
        (lambda x: collections.Counter([x]), "is no key of a dict or set"),
    ],
)
def test_what_python_refuses(use: Callable[..., Any], message: str) -> None:
    with pytest.raises(LanguageError) as caught:
        trace(use, X)
    assert message in caught.value.message
    assert caught.value.spot is not None and caught.value.spot.file == __file__


@pytest.mark.parametrize("shape", [{12}, "12", 12.0, (4, 3.0), (12, True), None, -12])
@pytest.mark.parametrize(
    "make",
    [
        lambda x, shape: np.full(shape, 1.0, like=x),
        lambda x, shape: x.reshape(shape),
        lambda x, shape: np.broadcast_to(x, shape),
    ],
)
def test_shapes_that_are_none(make: Callable[..., Any], shape: Any) -> None:
    with pytest.raises((ArgumentError, ShapeError)) as caught:
        trace(lambda x: make(x, shape), X)
    assert caught.value.spot is not None and caught.value.spot.file == __file__


def test_shapes_as_numpy_takes_them() -> None:
    for shape in ((3, 4), [3, 4], range(3, 5), np.array([3, 4]), (np.int64(3), 4)):
        assert trace(lambda x, s=shape: x.reshape(s), X)
        assert trace(lambda x, s=shape: np.reshape(x, s, order="F"), X)


def test_errors_of_the_users_own_stay_as_they_are() -> None:
    def refuses(x: Any) -> Any:
        raise TypeError("of the user's own")

    with pytest.raises(TypeError, match="of the user's own") as caught:
        trace(refuses, X)
    assert not isinstance(caught.value, UserError)


def test_attributes_that_no_array_has() -> None:
    with pytest.raises(LanguageError, match="has no attribute 'foo'"):
        trace(lambda x: x.foo, X)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("tranpose", "did you mean .transpose?"),
        ("summ", "did you mean .sum?"),
        ("exp", "write np.exp(x)"),
        ("concatenate", "write np.concatenate(x)"),
        ("to", "write x.astype(dtype)"),
        ("typecodes", ""),
    ],
)
def test_names_that_arrays_do_not_have(name: str, instead: str) -> None:
    with pytest.raises(LanguageError, match=f"no attribute '{name}'") as error:
        trace(lambda x: getattr(x, name), X)
    assert instead in str(error.value)
