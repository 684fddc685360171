"""The lines that kernels of the tile language are drawn of, in the ways that users write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from iris.ir.types import DTYPES
from iris.testing import plain_libdevice as libdevice
from iris.testing.plain_formulas import OF_ONE, OF_TWO
from iris.testing.tile_draft import SHAPES, WITH_ARRAYS, Line, TileDraft, assigned

_HASHING = (1 << 64) * 89 // 144 | 1
# Halfway between two numbers of tf32, or nearer to the greater.
_BEYOND_TF32 = ("1.00048828125", "-2.0009765625", "1.999755859375")
_SPECIAL = ('float("nan")', 'float("nan")', 'float("inf")', '-float("inf")')
_INTEGERS = tuple([t for t in WITH_ARRAYS if DTYPES[t].is_integer])
_LONG = tuple([DTYPES[t] for t in _INTEGERS if DTYPES[t].bits >= 32])
# Operators of Triton, and what they mean.
_DIVISIONS = {"//": "quotient", "%": "remainder", "/": "ratio"}


def _random(kernel: TileDraft) -> Line:
    """Random words, of counters or of offsets, and the numbers made of them."""
    choices = kernel.choices
    seed = choices.of(("7", "n", kernel.scalar(), "m"))
    rounds = choices.of(("", "", ", 7", ", n_rounds=4"))
    if choices.flag():
        words = [choices.of((kernel.integer(), "n", "0", "m")) for _ in range(4)]
        dtype = choices.of(("u32", "u32", "i32", "u64", "i64"))
        counters = ", ".join(f"({word} + n).to(iris.{dtype})" for word in words)
        return assigned(f"iris.philox({seed}, {counters}{rounds})[{choices.below(4)}]")
    word = choices.of(("randint", "rand", "rand", "randn", "randn"))
    offset = choices.of((kernel.integer(), f"{kernel.integer()}.to(iris.i64) * {_HASHING >> 9}"))
    if choices.flag():
        return assigned(f"iris.{word}4x({seed}, {offset}{rounds})[{choices.below(4)}]")
    return assigned(f"iris.{word}({seed}, {offset}{rounds.replace('n_rounds=', '')})")


# What formulas are called with: numbers of many sizes, near 1, and special ones.
_ARGUMENTS: Mapping[str, str] = {"f32": "F", "f16": "H", "bf16": "E"}
_EXTREMES = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0**-149, 2.0**-24, 88.9, -104.0)
_HIGH_HALF = 0xFFFF0000


def _arguments(kernel: TileDraft, dtype: str, number: int = 0) -> str:
    """Loads of numbers that a formula may be wrong at: the only one, the first or the second; of
    several, special ones meet."""
    choices, name = kernel.choices, f"{_ARGUMENTS[dtype]}{number}"
    if name not in kernel.arrays:
        rng = np.random.default_rng(choices.below(256))
        signs = rng.choice([-1, 1], 16)
        sizes = np.concatenate(
            [
                2.0 ** rng.uniform(-24, 7, 5),
                rng.uniform(0, 1, 4),
                1 + 2.0 ** rng.uniform(-20, 1, 2),
                rng.uniform(1, 100, 2),
                [2.0 ** rng.uniform(-126, 127)],
                rng.choice(_EXTREMES, 2),
            ]
        )
        many = 8 if number else 0
        sizes[:many] = rng.choice(_EXTREMES, many)
        with np.errstate(over="ignore"):
            data = (signs * sizes).astype(np.float16 if dtype == "f16" else np.float32)
        if dtype == "bf16":  # whose numbers are such
            data = (data.view(np.uint32) & np.uint32(_HIGH_HALF)).view(np.float32)
        kernel.add(name, rng.permutation(data), DTYPES["f16" if dtype == "f16" else "f32"])
    mask = ""
    if choices.flag(8) and not kernel.is_triton:
        mask = f", mask={kernel.covered((16,))}"
    loaded = f"iris.load({name}{kernel.lanes((16,))}{mask})"
    return f"{loaded}.to(iris.bf16)" if dtype == "bf16" else loaded


def _formula(kernel: TileDraft) -> Line:
    """A function of one number or two, which no line uses."""
    choices = kernel.choices
    dtype = choices.of(("f32", "f32", "f32", "f16", "bf16"))
    if choices.flag(3):
        word, style = choices.of([*OF_TWO]), choices.below(4)
        x, y = (_arguments(kernel, dtype, number) for number in (1, 2))
        pair = [x, y if style else choices.of(("2.0", "0.5", "-1.0", "3.0"))]
        if choices.flag():
            pair.reverse()
        if word == "power":
            return assigned(f"({pair[0]}) ** {pair[1]}", f"iris.power({pair[0]}, {pair[1]})")
        return assigned(f"iris.{word}({', '.join(pair)})")
    word = choices.of([*OF_ONE])
    numbers = ("2.5", "0.25", "-0.75", "0", "30", "1e-5", "-7.0")
    others = (_arguments(kernel, dtype), kernel.some(), choices.of(numbers))
    return assigned(f"iris.{word}({others[min(choices.below(8), 3) % 3]})")


def _of_libdevice(kernel: TileDraft) -> Line:
    """A function of f32, or of the bits of integers."""
    choices = kernel.choices
    if choices.flag(5):
        word = choices.of([*libdevice.OF_INTEGERS])
        given = [kernel.integer() for _ in range(libdevice.OF_INTEGERS[word])]
        return assigned(f"libdevice.{word}({', '.join(given)})")
    if choices.flag(4):
        x, y = (_arguments(kernel, "f32", number) for number in (1, 2))
        pair = (x, y if choices.flag() else choices.of(("2.0", "0.5", "-1.0", "3.0")))
        return assigned(f"libdevice.{choices.of([*libdevice.OF_TWO])}({', '.join(pair)})")
    return assigned(f"libdevice.{choices.of([*libdevice.OF_ONE])}({_arguments(kernel, 'f32')})")


def _by_chosen_pointer(kernel: TileDraft) -> Line:
    """Load or store through a pointer that is chosen among two arrays, or two places of one,
    where a mask holds."""
    choices, shape = kernel.choices, kernel.choices.of(((4,), (2, 2), (2,)))
    names = [name for name in kernel.arrays if name[0] in "AW"]
    several = [
        (x, y)
        for x in names
        for y in names
        if x != y and kernel.arrays[x].dtype == kernel.arrays[y].dtype
    ]
    alike = [choices.of(several)] * 6 if several else []
    one, other = choices.of([("W", "W"), ("A0", "A0"), *alike])
    first, second = choices.of(("", " + 1", " + n", " + 4")), choices.of(("", " + 2", " + n"))
    lanes = kernel.lanes(shape)
    inner, outer = choices.of(((lanes, ""), ("", lanes)))
    condition = kernel.truth()
    if one == other and choices.flag():
        condition = f"({lanes.removeprefix(' + ')} {choices.of(('<', '>'))} {choices.of('012')})"
    at = f"iris.where({condition}, {one}{first}{inner}, {other}{second}{inner}){outer}"
    covers = f"({lanes.removeprefix(' + ')} < {choices.of(('2', 'n', '3'))})"
    mask = choices.of((kernel.truth(), covers, covers, ""))
    masked = f", mask={mask}" if mask else ""
    if choices.flag():
        value = f", other={kernel.operand()}" if mask else ""
        return assigned(f"iris.load({at}{masked}{value})")
    stored = f"iris.store({at}, {kernel.operand()}{masked})"
    if choices.flag(3):
        words = ("add({}, {}{})", "max({}, {}{})", "cas({}, %s, {}{})", "exchange({}, {}{})")
        word = choices.of(words).format(at, kernel.operand(), masked)
        stored = f"iris.atomic_{word.replace('%s', _expected(kernel, shape))}"
        if choices.flag():
            return assigned(stored)
    loaded = f"iris.load({choices.of((one, other))}{lanes})"
    return Line(f"{stored}\n{{0}} = {loaded}", f"[{stored}, {loaded}][1]")


def _walked(kernel: TileDraft) -> Line:
    """What a pointer finds that a loop carries, from some place on."""
    choices, name = kernel.choices, kernel.choices.of(("W", "A0", "A1"))
    lanes = kernel.lanes(choices.of(((2,), (), (2, 2))))
    start, step = f"{name}{choices.of((' + 1', ' + 3', ''))}{lanes}", choices.of(("1", "2"))
    first = f"iris.load({start})"
    held = choices.of(("{0} + %s", "%s - {0}", "%s"))
    loop = choices.of(("for k in iris.tile_range(n):", "while k < n:"))
    counted = ["    k = k + 1"] if "while" in loop else []
    moved = f"    p = p + {step}" if choices.flag() else f"    p += {step}"
    lines = [f"p = {start}", f"k = 0\n{{0}} = {first}", loop]
    lines += [f"    {{0}} = {held % 'iris.load(p)'}", moved, *counted]
    following = (held % f"iris.load({start} + k * {step})").replace("{0}", "held")
    meaning = f"iris.repeated({first}, range(n), lambda held, k: {following})"
    return Line("\n".join(lines), meaning)


def _binary(kernel: TileDraft) -> Line:
    words = ("+", "-", "*", "//", "%", "/", "&", "|", "^", "<<", ">>", "+", "*")
    word = kernel.choices.of(words)
    x = kernel.some()
    pair = [x, kernel.operand(x)]
    if kernel.choices.flag(3):
        pair.reverse()
    expression = f"{pair[0]} {word} {pair[1]}"
    if kernel.is_triton and word in _DIVISIONS:
        return assigned(expression, f"iris.{_DIVISIONS[word]}({pair[0]}, {pair[1]})")
    return assigned(expression, is_rounded_once=word not in ("//", "%"))


def _unary(kernel: TileDraft) -> Line:
    """A function of one value: exact, or at times rounded once."""
    choices, x = kernel.choices, kernel.some()
    words = ["-{}", "~{}", "abs({})", "iris.floor({})", "iris.ceil({})", "iris.sqrt({})", "+{}"]
    if not kernel.is_triton:
        more = ("round", "trunc", "abs", "isnan", "isinf", "isfinite")
        words += [f"iris.{word}({{}})" for word in more]
        words += ["{} ** 2", "{} ** 3", f"{{}} ** {choices.below(9)}"]
    if choices.flag(3) and kernel.values[x].dtype.is_float:
        by = choices.of(("0.75", "0.3", "7.0", "1.1"))
        x = f"({x} {choices.of(('*', '+') if kernel.is_triton else ('*', '/', '+'))} {by})"
    word = choices.of(words)
    # A number that is no tile has no sign before it.
    text = word.format(x) if word != "+{}" else x
    return assigned(text, is_rounded_once="**" not in word and "(" not in x)


def _compared(kernel: TileDraft) -> Line:
    return assigned(kernel.condition())


def _converted(kernel: TileDraft) -> Line:
    words = ("{}.to({})", "iris.cast({}, {})", "iris.bitcast({}, {})")
    word = kernel.choices.of(words[: 2 if kernel.is_triton else 3])
    return assigned(word.format(kernel.some(), kernel.dtype()), is_rounded_once="bit" not in word)


def _chosen(kernel: TileDraft) -> Line:
    """Select an element by a condition, or combine three with clamp or fma."""
    choices, x = kernel.choices, kernel.some()
    style = choices.below(7)
    if style > 5:
        condition = choices.of((kernel.condition(), kernel.operand()))
        number = choices.of(('float("nan")', 'float("inf")', '-float("inf")', "-0.0"))
        return assigned(f"iris.where({condition}, {x}, {number})")
    if style == 5 and not kernel.is_triton:
        return assigned(f"iris.copysign({x}, {kernel.operand(x)})")
    if style > 3:
        return assigned(f"iris.clamp({x}, {kernel.operand(x)}, {kernel.operand(x)})")
    if style == 0:
        condition = choices.of((kernel.condition(), kernel.operand()))
        return assigned(f"iris.where({condition}, {kernel.operand()}, {kernel.operand()})")
    if style == 1:
        operands = f"{x}, {kernel.operand(x)}, {choices.of((kernel.operand(x), '0.3'))}"
        return assigned(f"iris.fma({operands})", is_rounded_once=True)
    word = ("iris.maximum", "iris.minimum")[style - 2]
    pair = [x, kernel.operand(x)][:: -1 if choices.flag() else 1]
    return assigned(f"{word}({', '.join(pair)})")


def _shaped(kernel: TileDraft) -> Line:
    choices, x = kernel.choices, kernel.shaped()
    shape = choices.of(SHAPES)
    style = choices.below(9)
    if style == 8:
        form = "iris.transpose({})" if not kernel.is_triton else "iris.trans({})"
        return assigned(form.format(x), f"{x}.T")
    if style == 7:
        word = choices.of(("iris.zeros({}, {})", "iris.full({}, 1, {})"))
        return assigned(word.format(choices.of((shape or (4,), (8,))), kernel.dtype()))
    if style == 6:
        expanded = f"iris.expand_dims({x}, {choices.of((0, 1, -1))})"
        return assigned(choices.of((f"iris.ravel({x})", expanded)))
    if style == 0:
        return assigned(f"{x}.T")
    if style == 1:
        rank = kernel.values[x].data.ndim
        orders = ((1, 0),) if rank == 2 else ((1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0))
        return assigned(f"iris.transpose({x}, {choices.of(orders)})")
    if style == 2:
        return assigned(kernel.indexed(x))
    if style == 3:
        return assigned(f"iris.broadcast_to({kernel.some()}, {shape or (4,)})")
    if style == 4:
        return assigned(f"iris.full({shape or (4,)}, {kernel.scalar()}, {kernel.dtype()})")
    count = kernel.values[x].data.size
    fitting = [s for s in SHAPES if prod(s) == count] or [(count,)]
    return assigned(f"iris.reshape({x}, {choices.of(fitting)})")


def _reduced(kernel: TileDraft) -> Line:
    choices, x = kernel.choices, kernel.some() if kernel.choices.flag(5) else kernel.ranked()
    words = ("sum", "max", "min", "argmax", "argmin", "any", "all", "prod")
    word = choices.of(words[: 5 if kernel.is_triton else None])
    goes_along_one = kernel.is_triton and word.startswith("arg")
    given = "" if choices.flag(3) and not goes_along_one else f", axis={kernel.axis(x)}"
    if word in ("sum", "prod") and choices.flag(4):
        given += f", dtype={kernel.dtype()}"
    if choices.flag(3):
        given += ", keepdims=True"
    if word == "prod":
        factors = (f"{x}.to(iris.{choices.of(_INTEGERS)})", f"iris.where({x} > 0, 2.0, -1.0)")
        x = choices.of((*factors, x))
    return assigned(f"iris.{word}({x}{given})")


# Of integers, whose sums and products wrap; and of numbers.
_OF_INTEGERS = ("a + b", "a * b", "a ^ b", "iris.minimum(a, b)", "a & b")
_OF_NUMBERS = ("iris.maximum(a, b)", "iris.minimum(a, b)")
# Associative alone; of pairs of elements, a composition of `x * a + b`, and the first greatest.
_IN_ORDER = ("a", "b", "iris.where(b == 0, a, b)")
_COMPOSED = "lambda a, b, c, d: (a * c, b * c + d)"
_GREATEST = (
    "lambda a, i, b, j: (iris.maximum(a, b), "
    "iris.where((a > b) | ((a == b) & (i < j)), i, j).to(i.dtype))"
)


def _scanned(kernel: TileDraft) -> Line:
    """Along any axis, from either end: sums, or what a function makes, also of pairs."""
    choices, x = kernel.choices, kernel.ranked()
    axis, dtype = kernel.axis(x), kernel.values[x].dtype
    reverse = choices.of(("", ", reverse=True"))
    style = choices.below(5)
    if style < 2:
        at = choices.of((f", axis={axis}", f", axis={axis}", ""))
        wanted = f", dtype={kernel.dtype()}" if choices.flag(4) else ""
        return assigned(f"iris.cumsum({x}{at}{wanted}{reverse})")
    if style == 2 and dtype.is_integer:
        one = kernel.some(lambda v: v.dtype is dtype)
        given = f"({x}, {one}), {axis}, {_COMPOSED}{reverse}"
        return assigned(f"iris.associative_scan({given})[{choices.below(2)}]")
    some = (*_OF_NUMBERS, *(_OF_INTEGERS if dtype.is_integer else ()), *_IN_ORDER)
    function = f"lambda a, b: {choices.of(some)}"
    return assigned(f"iris.associative_scan({x}, {axis}, {function}{reverse})")


def _combined(kernel: TileDraft) -> Line:
    """Elements along an axis, or all, combined by a function; or pairs of them."""
    choices, x = kernel.choices, kernel.ranked()
    axis, dtype = choices.of((kernel.axis(x), kernel.axis(x), None)), kernel.values[x].dtype
    kept = choices.of(("", ", keepdims=True"))
    if choices.flag(3) and dtype.is_integer:
        one = kernel.some(lambda v: v.dtype is dtype)
        return assigned(f"iris.reduce(({x}, {one}), {axis}, {_GREATEST}{kept})[{choices.below(2)}]")
    function = choices.of((*_OF_NUMBERS, *(_OF_INTEGERS if dtype.is_integer else ())))
    return assigned(f"iris.reduce({x}, {axis}, lambda a, b: {function}{kept})")


def _ordered(kernel: TileDraft) -> Line:
    """Elements in order, along any axis, from the least or the greatest, with or without nan."""
    choices, x = kernel.choices, kernel.ranked()
    axis, dtype = kernel.axis(x), kernel.values[x].dtype
    if dtype.is_float and choices.flag(4):
        x = f"iris.where({kernel.condition()}, {x}, {choices.of(_SPECIAL)})"
    if choices.flag(3):
        return assigned(f"iris.topk({x}, {choices.of((2, 1, 4))}, {axis})")
    return assigned(f"iris.sort({x}, {axis}{choices.of(('', ', True', ', False', ', True'))})")


def _rearranged(kernel: TileDraft) -> Line:
    """Elements in other places."""
    choices, x = kernel.choices, kernel.ranked()
    axis = kernel.axis(x)
    shape = kernel.values[x].shape
    other = kernel.some() if choices.flag(3) else kernel.some(lambda v: v.shape == shape)
    size = shape[axis]
    forms = (
        f"iris.flip({x}, {axis if kernel.is_triton else choices.of((axis, None))})",
        f"iris.gather({x}, {other}.to(iris.u8) % {size}, {axis})",
        f"iris.gather({x}, iris.flip({other}.to(iris.u8) % {size}, {axis}), {axis})",
        f"iris.join({x}, {other})",
        f"iris.split({x})[{choices.below(2)}]",
        f"iris.split(iris.join({x}, {other}))[{choices.below(2)}]",
        f"iris.interleave({x}, {other})",
        _histogram(kernel, x),
    )
    style = choices.below(len(forms) + 1)
    if style == len(forms):
        text = f"iris.cat({x}, {other}, {'dim=' if kernel.is_triton else ''}{axis})"
        return assigned(text, f"iris.cat({x}, {other}, {axis})")
    return assigned(forms[style])


def _histogram(kernel: TileDraft, x: str) -> str:
    """Counts of integers, of which bins may have more than there are."""
    choices = kernel.choices
    counted = choices.of((kernel.integer(), f"{x}.to(iris.i8)", f"{x}.to(iris.u8)"))
    mask = f", mask={kernel.condition()}" if choices.flag(3) else ""
    return f"iris.histogram({counted}, {choices.of((256, 4, 16))}{mask})"


def _multiplied(kernel: TileDraft) -> Line:
    choices = kernel.choices
    a = kernel.some(lambda x: x.data.ndim > 1)
    axis = choices.below(2)
    *batch, _, size = kernel.values[a].shape
    b = kernel.some(
        lambda x: x.data.ndim > 1 and [*x.shape[:-2]] == batch and x.shape[axis - 2] == size
    )
    turned = ".T" if axis else ""
    acc = choices.of(("", "", f", {kernel.number()}", f", {kernel.some()}"))
    precise = ""
    if not kernel.is_triton and choices.flag():
        factor = choices.of(_BEYOND_TF32)
        a = choices.of((a, f"iris.where({a} > 0, {factor}, {a}.to(iris.f32))"))
        precise = ', precision="tf32"'
    return assigned(f"iris.dot({a}, {b}{turned}{acc}{precise})")


def _counted(kernel: TileDraft) -> Line:
    """Integers that are known without any array, and how often some occur."""
    choices, style = kernel.choices, kernel.choices.below(4)
    if style == 3:
        n = choices.of((1, 3, 7, 8, 9, 0))
        forms = ("iris.next_power_of_2({})", "iris.cdiv({}, 4)", "iris.cdiv(-{}, 4)")
        return assigned(f"iris.full((4,), {choices.of(forms).format(n)}, iris.i32)")
    if style == 2:
        axis, word = choices.below(3), choices.of(("program_id", "num_programs"))
        return assigned(f"iris.{word}({axis})", f"iris.cast({kernel.place(word, axis)}, iris.i32)")
    if style == 1:
        return assigned(_histogram(kernel, kernel.shaped()))
    first, count = choices.of((0, 1, -2, 5)), choices.of((4, 8, 2))
    return assigned(f"iris.arange({first}, {first + count})")


def _of_integers(kernel: TileDraft) -> Line:
    """Quotients rounded up, and high halves of products."""
    choices = kernel.choices
    if choices.flag():
        if choices.flag():  # of 64 bits that differ, as where a number is hashed
            a, b = (f"{kernel.integer()}.to(iris.u64) * {_HASHING}" for _ in range(2))
        else:
            a, b = (kernel.some(lambda x: x.dtype in _LONG) for _ in range(2))
        return assigned(f"iris.umulhi({a}, {b})")
    x, divisor = kernel.integer(), choices.of(("2", "3", "-3", "4", "-4", kernel.integer(), "m"))
    if choices.flag():  # near the greatest that there are
        x = f"{x} & 7 ^ {kernel.values[x].dtype.high}"
    return assigned(f"iris.cdiv({x}, {divisor})")


def _matrix(kernel: TileDraft) -> Line:
    """A block of a matrix, loaded, or stored and read: of an array with two axes, of a flat one, or
    from an offset on; at its edges and beyond."""
    choices = kernel.choices
    name = choices.of(("B", "B", "A0", "W"))
    whole, size = kernel.arrays[name].shape, kernel.arrays[name].size
    height, width = whole[-2:] if len(whole) > 1 else (max(1, size // 4), 4)
    places = ("0", "n", "1", "-1", "2", "m", "3")
    row, column = choices.of(places), choices.of(places)
    shape = choices.of(((4, 4), (2, 4), (4, 8), (2, 2), (8, 4)))
    start = choices.of(("", "", " + 1", " + n"))
    rows = choices.of((None, None, "n", "m", height, height - 1))
    columns = choices.of((None, None, width, width - 1, "n"))
    if start or len(whole) > 2:
        rows, columns = rows or height - 1, columns or width - 1
    given = "".join([f", {k}={x}" for k, x in (("rows", rows), ("cols", columns)) if x is not None])
    at = f"{name}{start}, {row}, {column}, {width}"
    if choices.flag(3):
        value = kernel.some(lambda v: v.data.ndim == 2) if choices.flag() else kernel.operand()
        sized = choices.of(("", f", shape={shape}"))
        store = f"iris.tile_store({at}, {value}{sized}{given})"
        read = f"iris.load({name} + iris.arange(0, {size & -size}))"
        return Line(f"{store}\n{{0}} = {read}", f"[{store}, {read}][1]")
    return assigned(f"iris.tile_load({at}, {shape}{given})")


def _loaded(kernel: TileDraft) -> Line:
    """A gather, at times with a mask, and what stands for the elements that it leaves out."""
    choices = kernel.choices
    name = choices.of(("A0", "W", "A1"))
    # A sum in an address must not overflow, so it is cut first.
    size = kernel.arrays[name].size
    index = f"{kernel.integer()}.to(iris.u8) % {size}"
    if choices.flag():
        index = f"({index}).to(iris.{choices.of(_INTEGERS)})"
    forms = f"{name} + {index}", f"{index} + {name}", f"{name} + {size - 1} - {index}"
    at = choices.of(forms)
    volatile = ", volatile=True" if choices.flag(5) else ""
    if choices.flag(3):
        return assigned(f"iris.load({at}{volatile})")
    mask = choices.of((kernel.condition(), kernel.truth(), kernel.condition(), "True", "False"))
    style = choices.below(4)
    if style == 3 and not volatile:  # in Triton they are 0 then, in Iris they do not count
        return assigned(f"iris.load({at}, mask={mask})")
    other = f"other={kernel.operand()}" if style else kernel.operand()
    return assigned(f"iris.load({at}, {'mask=' if style else ''}{mask}, {other}{volatile})")


def _block(kernel: TileDraft) -> Line:
    """A block of an array, loaded, or stored and read: at a pointer that moves, or by a
    descriptor, whose axes are all checked."""
    choices = kernel.choices
    name = choices.of(("B", "W", "A0"))
    count = kernel.arrays[name].size
    whole = kernel.arrays["B"].shape if name == "B" else choices.of(((count,), (count // 4, 4)))
    strides = [prod(whole[axis + 1 :]) for axis in range(len(whole))]
    shape: list[Any] = [choices.of((size, size - 1, "n")) for size in whole]
    if len(whole) > 1 and choices.flag(3):  # its columns first
        shape, strides = shape[::-1], strides[::-1]
    if choices.flag(4):  # of many such arrays the first
        shape, strides = [1, *shape], [count, *strides]
    sizes = tuple([choices.of((4, 2, 8, 1)) for _ in shape])
    offsets, by = (
        f"[{', '.join([choices.of(('0', 'n', '1', '-1', '2', 'm')) for _ in shape])}]" for _ in "12"
    )
    base = f"{name}{choices.of(('', '', ' + n', ' + 1'))}"
    array = f"{base}, [{', '.join(map(str, shape))}], {strides}"
    checked = [axis for axis in range(len(shape)) if choices.below(4)]
    padding = choices.of(("zero", "zero", "nan"))
    of_nan = "iris.where({0} == {0}, {0}, 7)"
    if choices.flag(3):
        held = f'iris.make_tensor_descriptor({array}, {sizes}, "{padding}")'
        load, store = f"{held}.load({offsets})", f"{held}.store({offsets}, %s)"
    else:
        order = [*range(len(shape))][::-1]
        held = f"iris.make_block_ptr({array}, {offsets}, {sizes}, {order})"
        if choices.flag():
            held = f"iris.advance({held}, {by})"
        load = f'iris.load({held}, boundary_check={checked}, padding_option="{padding}")'
        store = f"iris.store({held}, %s, boundary_check={checked})"
    if choices.flag(3):
        store %= kernel.operand()
        read = f"iris.load({name} + iris.arange(0, {min(count, 16) & -min(count, 16)}))"
        return Line(f"{store}\n{{0}} = {read}", f"[{store}, {read}][1]")
    if padding == "nan":  # which no variable is to hold
        meaning = f"(lambda v: {of_nan.format('v')})({load})"
        return Line(f"{{0}} = {load}\n{{0}} = {of_nan}", meaning)
    return assigned(load)


def _stored_and_read(kernel: TileDraft) -> Line:
    """What elements of an array are after some were written, or were before."""
    choices, shape = kernel.choices, kernel.choices.of(((8,), (2, 4), (4,), ()))
    at = f"W{kernel.lanes(shape)}{choices.of(('', ' + n', ' + 1', ' + 4 - n'))}"
    masks = [kernel.truth(), kernel.condition()]
    if shape:
        masks += [kernel.covered(shape)] * 2
    mask = choices.of(("", "", *[f", mask={mask}" for mask in masks]))
    if choices.flag():
        stored = f"iris.store({at}, {kernel.operand()}{mask})"
        loaded = f"iris.load(W{kernel.lanes(shape)})"
        return Line(f"{stored}\n{{0}} = {loaded}", f"[{stored}, {loaded}][1]")
    words = ("cas", "add", "max", "min", "cas", "and", "or", "xor", "exchange")
    word = choices.of(words[: None if kernel.arrays["W"].dtype.kind in "iu" else 4])
    given = kernel.operand()
    if word == "cas":
        given, mask = f"{_expected(kernel, shape)}, {given}", "" if kernel.is_triton else mask
    old = f"iris.atomic_{word}({at}, {given}{mask})"
    if choices.flag(3):  # nobody asks for the old elements
        read = f"iris.load(W{kernel.lanes(shape)})"
        return Line(f"{old}\n{{0}} = {read}", f"[{old}, {read}][1]")
    return assigned(old)


def _expected(kernel: TileDraft, shape: tuple[int, ...]) -> str:
    """What an exchange expects: mostly what is in some of the elements."""
    choices, there = kernel.choices, f"iris.load(W{kernel.lanes(shape)})"
    if choices.flag(3):
        return kernel.operand()
    if shape and choices.flag():
        return f"iris.where({kernel.covered(shape)}, {there}, {kernel.number()})"
    return there


def _joined(kernel: TileDraft) -> Line:
    """`and`, `or`, `not`: the rest is asked only if it counts, for it may divide by zero."""
    if kernel.choices.flag():
        return _operand(kernel)
    x, y = kernel.truth(), kernel.truth()
    divisor = kernel.some(lambda v: not v.shape and v.dtype.is_integer)
    divided = f"{kernel.some(lambda v: not v.shape)} // {divisor} > 0"
    forms = (
        f"{x} and {y}",
        f"{x} or {y}",
        f"{divisor} != 0 and {divided}",
        f"{divisor} == 0 or {divided}",
        f"not {x} and ({y} or {divisor} > 0)",
        f"not ({x} or {divisor})",
    )
    form = kernel.choices.of(forms)
    # What Python does not ask is traced all the same, and may be refused.
    return Line(f"{{0}} = {form}", f"({x}, {y}, iris.cast(bool({form}), iris.bool_))[2]")


def _operand(kernel: TileDraft) -> Line:
    """The operand that `and` or `or` of numbers gives."""
    x, y = kernel.scalar(), kernel.choices.of((kernel.scalar(), kernel.number()))
    if kernel.choices.flag():
        return Line(f"{{0}} = {x} and {y}", f"iris.where({x}, {y}, {x})")
    return Line(f"{{0}} = {x} or {y}", f"iris.where({x}, {x}, {y})")


def _branched(kernel: TileDraft) -> Line:
    """What one of two branches makes, or one alone."""
    condition = kernel.choices.of((kernel.truth(), kernel.scalar()))
    x = kernel.some()
    one, other = x, kernel.choices.of((kernel.number(), f"{x} + {kernel.number()}", kernel.some()))
    if kernel.choices.flag():
        one, other = other, one
    texts = (
        f"{{0}} = {one} if {condition} else {other}",
        f"if {condition}:\n    {{0}} = {one}\nelse:\n    {{0}} = {other}",
        f"{{0}} = {other}\nif {condition}:\n    {{0}} = {one}",
    )
    return Line(kernel.choices.of(texts), f"iris.either({condition}, {one}, {other})")


def _repeated(kernel: TileDraft) -> Line:
    """What a loop makes of a value or of a number, some of them without any iteration."""
    choices, x = kernel.choices, kernel.operand()
    start = choices.of(("0", kernel.some(), "0.0", kernel.some(), "1", "-0.0"))
    bounds = choices.of(("n", "1, n", "n, -1, -1", "0, 7, n + 1", "m, 3", "n, 0", "3"))
    steps = (
        "{0} + %s",
        "%s - {0}",
        "{0} + k",
        "iris.maximum({0}, %s)",
        "iris.where(k > 0, {0}, %s)",
        "-{0}",
        "({0} * 3 + %s).to({0}.dtype)",
        "-0.0",
        "%s",
    )
    chosen = choices.of(
        steps if start in kernel.values else [s for s in steps if ".dtype" not in s]
    )
    step = chosen % x if "%s" in chosen else chosen
    body = [f"{{0}} = {step}"]
    style = choices.below(4)
    if style == 2:
        bounds = "n"
    loop = f"for k in range({bounds}):"
    if style == 1 or bounds == "3":  # else that is a loop of Python
        loop = f"for k in iris.tile_range({bounds}):"
    if style == 2:
        loop, body = "while k < n:", [*body, "k = k + 1"]
    elif choices.flag(3):
        count = f"{kernel.some(lambda v: not v.shape and v.dtype.is_integer)}.to(iris.u32) % 7"
        bounds = choices.of(("%s, 0, -1", "-2, %s", "n, %s, -1", "%s")) % count
        loop = f"for k in range({bounds}):"
        body = ["k = k.to(iris.i32)", *body]  # it counts in i64 or u32
    held = "held[0]" if style == 3 else "{0}"
    lines = ["k = 0", f"held = [{start}, 1]" if style == 3 else f"{{0}} = {start}", loop]
    lines += [f"    {line.replace('{0}', held)}" for line in body]
    if style == 3:
        lines.append("{0} = held[0]")
    following = step.replace("{0}", "held")
    meaning = f"iris.repeated({start}, range({bounds}), lambda held, k: {following})"
    return Line("\n".join(lines), meaning)


# How often each is drawn: by how many words it has, and how many ways to call them.
MAKERS: tuple[Callable[[TileDraft], Line], ...] = (
    *[_binary] * 3,
    *[_unary] * 2,
    _compared,
    *[_converted] * 2,
    *[_chosen] * 2,
    *[_shaped] * 2,
    *[_reduced] * 3,
    *[_scanned] * 3,
    _combined,
    *[_ordered] * 3,
    *[_rearranged] * 3,
    *[_multiplied] * 2,
    *[_counted] * 2,
    *[_of_integers] * 2,
    *[_formula] * 6,
    *[_random] * 2,
    *[_loaded] * 2,
    *[_matrix] * 3,
    *[_stored_and_read] * 3,
    *[_by_chosen_pointer] * 3,
    _walked,
    *[_joined] * 2,
    *[_branched] * 2,
    *[_repeated] * 2,
)
# Of words that Triton has.
OF_TRITON: tuple[Callable[[TileDraft], Line], ...] = (
    *[_binary] * 4,
    _converted,
    _chosen,
    _compared,
    _unary,
    _combined,
    _scanned,
    _rearranged,
    _ordered,
    _branched,
    *[_block] * 5,
    *[_of_libdevice] * 4,
    _shaped,
    _reduced,
    _loaded,
    _stored_and_read,
    _repeated,
)
