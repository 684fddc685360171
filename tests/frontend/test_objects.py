"""Python objects that a traced loop or branch changes: as Python has it, or an error at the line.

Each program runs twice: by Python itself, on a list of numbers, and traced, on an array. Its
argument `n` is a number there and a traced value here, so each `if` and loop on it is traced.
"""

from __future__ import annotations

import ctypes
import io
import itertools
import operator
import random
import threading
from array import array
from collections import ChainMap, UserDict, UserList, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, replace
from queue import SimpleQueue
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import iris
from iris.errors import CarriedError, ControlFlowError, ScopeError, UserError
from iris.testing import kernels

SIZE = 12
SIZES = [0, 1, 2, 5]


@iris.kernel
def traced_program(X, n, PROGRAM: iris.constexpr):
    PROGRAM(lambda i: iris.load(X + i), lambda i, v: iris.store(X + i, v), n)


def by_python(program: Callable[..., None], n: int) -> list[float]:
    x = [float(i + 1) for i in range(SIZE)]
    program(x.__getitem__, x.__setitem__, n)
    return x


def by_iris(program: Callable[..., None], n: int) -> list[float]:
    x = np.arange(1, SIZE + 1, dtype=np.float32)
    traced_program[1](x, n, PROGRAM=iris.kernel(program))
    return x.tolist()


# Programs that work.


def counter_in_a_dict(get, put, n):
    d = {"c": 0, "other": 5}
    if n > 1:
        d["c"] += 1
    else:
        d["c"] -= 3
    for _ in range(n):
        d["c"] += 2
    put(0, d["c"] + d["other"])


def item_of_a_list(get, put, n):
    t = [get(0), get(1), get(2)]
    if n > 1:
        t[0] = t[1] + 10.0
    for _ in range(n):
        t[1] = t[1] + t[0]
        t[0], t[2] = t[2], t[0] + 1.0
    put(0, t[0])
    put(1, t[1])
    put(2, t[2])


def attributes(get, put, n):
    state = SimpleNamespace(m=get(0), l=0.0)
    for i in range(n):
        state.m = state.m * 0.5 + get(i)
        if n > 2:
            state.l += state.m
    put(0, state.m)
    put(1, state.l)


@dataclass
class State:
    m: Any
    parts: list[Any]


def dataclass_within_a_dict(get, put, n):
    d = {"state": State(get(0), [get(1), 0.0])}
    for _ in range(n):
        s = d["state"]
        s.m += 1.0
        s.parts[1] = s.parts[1] + s.parts[0]
    put(0, d["state"].m)
    put(1, d["state"].parts[1])


def dataclass_made_anew(get, put, n):
    s = State(get(0), [get(1), 0.0])
    for _ in range(n):
        s = State(s.m + 1.0, [s.parts[0], s.parts[1] + s.m])
    put(0, s.m)
    put(1, s.parts[1])


@dataclass(frozen=True)
class Frozen:
    m: Any
    n: Any


def frozen_dataclass(get, put, n):
    s = Frozen(get(0), 0.0)
    same = s
    for _ in range(n):
        s = replace(s, n=s.n + s.m)
    if n > 1:
        s = replace(s, m=same.n + 7.0)
    put(0, s.m + s.n)
    put(1, same.m + same.n)


def frozen_dataclass_changed_in_place(get, put, n):
    s = Frozen(get(0), 0.0)
    same = (s, 3)
    for _ in range(n):
        object.__setattr__(s, "n", s.n + s.m)
    if n > 1:
        object.__setattr__(same[0], "m", s.n + 7.0)
    put(0, s.m + s.n)
    put(1, same[0].m + same[0].n)


def pair_of_tiles(get, put, n):
    pair = get(0), get(1)
    for _ in range(n):
        pair = pair[1], pair[0] + 1.0
    if n > 1:
        pair = pair[1] * 2.0, pair[0]
    put(0, pair[0])
    put(1, pair[1])


Point = namedtuple("Point", "x y")


class Typed(NamedTuple):
    a: Any
    b: Any


def namedtuples(get, put, n):
    p, q = Point(get(0), 1.0), Typed(get(1), (get(2), 3))
    while n > 0:
        p = p._replace(y=p.y + p.x)
        q = Typed(q.b[0], (q.a, q.b[1] + 1))
        n -= 1
    put(0, p.y)
    put(1, q.a + q.b[1])


def list_made_anew(get, put, n):
    acc = [0.0, 0.0, 0.0]
    for _ in range(n):
        acc = [a + get(k) for k, a in enumerate(acc)]
    if n > 1:
        acc = [a * 2.0 for a in acc]
    for k in range(3):
        put(k, acc[k])


def lists_that_swap(get, put, n):
    a, b = [get(0), 1.0], [get(1), 2.0]
    for _ in range(n):
        a, b = b, a
        a[0] += 1.0
    put(0, a[0] + 10 * a[1])
    put(1, b[0] + 10 * b[1])


def two_names_of_one_list(get, put, n):
    a = [get(0), get(1)]
    b = a
    if n > 1:
        b[0] = 7.0
        a[1] = b[0] + 1.0
    for _ in range(n):
        a[0] += b[1]
    put(0, b[0])
    put(1, a[1])


def helper_that_changes_its_argument(get, put, n):
    def bump(d, by):
        d["c"] = d["c"] + by

    d = {"c": get(0)}
    for i in range(n):
        bump(d, get(i))
    if n > 1:
        bump(d, 100.0)
    put(0, d["c"])


def variable_of_an_outer_function(get, put, n):
    count = 0

    def bump():
        nonlocal count
        count += 1
        return count

    if n > 1:
        bump()
    for _ in range(n):
        put(0, bump() + count)
    put(1, count)


TOTAL = 0
TABLE = {"t": 1.0}


def global_variable(get, put, n):
    global TOTAL
    TOTAL = 0
    TABLE["t"] = 1.0
    if n > 1:
        TOTAL += 5
    for _ in range(n):
        TOTAL += 1
        TABLE["t"] = TABLE["t"] + 1.0
    put(0, TOTAL)
    put(1, TABLE["t"])
    TOTAL = 0
    TABLE["t"] = 1.0


class Counter:
    made = 0

    def __init__(self, start):
        self.__dict__["count"] = start

    def bump(self):
        self.count += 1
        Counter.made += 2


def methods(get, put, n):
    Counter.made = 0
    counter = Counter(3)
    if n > 1:
        counter.bump()
    for _ in range(n):
        counter.bump()
    put(0, counter.count)
    put(1, Counter.made)
    Counter.made = 0


class Slots:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


def slots(get, put, n):
    s = Slots(get(0), 0)
    while s.y < n:
        s.y += 1
        s.x += 1.0
    put(0, s.x + s.y)


def keys_of_both_branches(get, put, n):
    d = {}
    if n > 1:
        d["x"] = get(0)
        d["y"] = 1
    else:
        d["x"] = get(1)
        d["y"] = 2
    put(0, d["x"] + d["y"])


def appended_in_both_branches(get, put, n):
    found = [get(0)]
    if n > 1:
        found.append(get(1))
    else:
        found.append(5.0)
    put(0, found[0] + found[1])


def stack_of_a_round(get, put, n):
    work = [1.0]
    total = 0.0
    for i in range(n):
        work.append(get(i))
        work.append(2.0)
        total += work.pop() * work.pop()
    put(0, total + len(work))


def queue(get, put, n):
    window = deque([get(0), get(1), get(2)])
    for _ in range(n):
        window.append(window.popleft() + 1.0)
    put(0, window[0])
    put(1, window[2])


def read_only_view(get, put, n):
    inner = {"a": SimpleNamespace(v=0), "c": 1}
    view = MappingProxyType(inner)
    if n > 1:
        view["a"].v += 1
        inner["c"] = 5
    for _ in range(n):
        view["a"].v += 2
    put(0, view["a"].v)
    put(1, view["c"])


def expressions(get, put, n):
    d = {"a": 0, "b": 0}

    def add(k):
        d[k] += 1
        return d[k] > 0

    x = add("a") if n > 1 else add("b")
    y = n > 0 and add("a")
    z = n > 3 or add("b")
    put(0, d["a"] + 10 * d["b"])
    if (x and y) or z:
        put(1, 50.0)


def walrus(get, put, n):
    y = 3
    if n > 1 and (y := y + n) > 4:
        put(0, y)
    if (z := n + 1) > 2:
        put(1, z)
    w = (y := 100) if n > 2 else y
    put(2, y + w + z)


def walrus_of_python(get, put, n):
    items = [1, 2, 3]
    if items and (first := items[0]) and (n is None or (last := items[-1])):
        put(0, first + last)
    put(1, sum([(seen := item) for item in items]) + seen)


def walrus_in_a_comprehension(get, put, n):
    last = 0
    for _ in range(n):
        squares = [last := k * 2 for k in range(2)]
        put(0, len(squares))
    put(1, last)


def loop_that_turns_traced(get, put, n):
    x, calls = 0, 0
    while x < 10:
        x = x + n + 1
        calls += 1
    put(0, x + 100 * calls)


def pointers_in_a_list(get, put, n):
    offsets = [0, 1]
    for _ in range(n):
        offsets[0] = offsets[0] + 1
    put(1, get(offsets[0]))


def nested(get, put, n):
    d = {"sum": 0.0, "count": 0, "max": [0.0]}
    for i in range(n):
        for j in range(i):
            if get(j) > d["max"][0]:
                d["max"][0] = get(j)
                d["count"] += 1
            d["sum"] += get(j)
    put(0, d["sum"] + d["count"])
    put(1, d["max"][0])


def restored_in_one_branch(get, put, n):
    mode = [1.0]
    if n > 1:
        mode[0] = 2.0
        put(0, get(0) * mode[0])
        mode[0] = 1.0
    put(1, mode[0])


def window_of_the_last(get, put, n):
    window = [0] * 10
    for i in range(n):
        window = [*window[1:], get(i)]
    put(0, window[0] + window[9] * 2)


def value_of_a_later_part(get, put, n):
    if n > 1 and (y := n * 2) > 4:
        put(0, y)
    if 0 < n < (z := n + 1) < 10:
        put(1, z)


def chain_that_stops(get, put, n):
    d = {"calls": 0}

    def limit():
        d["calls"] += 1
        return get(1)

    if 1 < n < limit():
        put(0, 1.0)
    put(1, d["calls"])


def chain_of_what_a_loop_carries(get, put, n):
    start, k, held = n * 1, n * 2, [0, 0]
    x = start
    while k > 0:
        held[0] = 1 if k == 3 or -2 < x < 6 else n
        held[1] = 1 if k == 3 or (_y := x + k) > 4 else n
        x = start
        k -= 1
    put(0, held[0] * 2 + held[1])


def variable_of_a_lambda(get, put, n):
    x = 1.0

    def current():
        return x

    if n > 1:
        x = 5.0
    put(0, current())
    for _ in range(n):
        x = x + 1.0
        put(1, current())
    put(2, current())


def list_that_an_expression_makes(get, put, n):
    a = [get(0), get(1)] if n > 1 else [get(2), get(3)]
    a[0] += 1.0
    put(0, a[0])
    put(1, a[1])


def lists_that_are_returned_early(get, put, n):
    def pair(c):
        if c:
            both = [get(0), get(1)]
            both[0] += 1.0
            return both
        other = SimpleNamespace(items=[get(2), get(3)])
        if n > 4:
            return [other.items[1], other.items[0]]
        return other.items

    a = pair(n == 1)
    a[0] += 1.0
    put(0, a[0])
    put(1, a[1])


def objects_that_a_return_leaves(get, put, n):
    def total(s):
        if n > 0:
            s.items[1] = 5.0
            if n > 2:
                return s.items
            s.items[2] += 1.0
        mine = [get(3), get(4), s.items[2]]
        if n == 0:
            return mine
        mine[0] += s.items[1]
        return [mine[0], get(5), get(6)]

    state = SimpleNamespace(items=[get(0), get(1), get(2)])
    if n != 5:
        put(0, total(SimpleNamespace(items=[get(7), get(8), get(9)]))[2])
    put(1, within(state, n))
    put(2, state.items[1] + state.items[2])


def within(s, n):
    items = [*s.items]
    s = SimpleNamespace(items=items)  # held twice, and still the same after a branch that returns
    if n > 0:
        items[1] = 5.0
        if n > 1:
            return s.items[1]
        s.items[2] += 1.0
    return s.items[0] + s.items[2]


def array_of_objects(get, put, n):
    table = np.empty((2, 2), object)
    table[:] = 0.0
    table[1, 0] = get(1)
    if n > 1:
        table[1, 0] = get(2)
    for i in range(n):
        table[0, 1] += get(i)
    put(0, table[1, 0])
    put(1, table[0, 1])


def lists_and_dicts_of_classes(get, put, n):
    a, d = UserList([get(0), 1.0]), UserDict(total=0.0)
    both = ChainMap({"first": get(1)}, d.data)
    if n > 1:
        a[0] = get(2)
        both["first"] += 1.0
    for i in range(n):
        d["total"] += get(i)
    put(0, a[0] + a[1])
    put(1, both["total"] + both["first"])


def attribute_of_a_function(get, put, n):
    def add(x):
        add.total += x
        add.calls += 1

    add.total, add.calls = 0.0, 0
    for i in range(n):
        add(get(i))
    if n > 1:
        add.total += 0.5
    put(0, add.total)
    put(1, add.calls)


WORKING = [
    attribute_of_a_function,
    objects_that_a_return_leaves,
    lists_that_are_returned_early,
    list_that_an_expression_makes,
    array_of_objects,
    lists_and_dicts_of_classes,
    window_of_the_last,
    value_of_a_later_part,
    chain_that_stops,
    chain_of_what_a_loop_carries,
    variable_of_a_lambda,
    counter_in_a_dict,
    item_of_a_list,
    attributes,
    dataclass_within_a_dict,
    dataclass_made_anew,
    frozen_dataclass,
    frozen_dataclass_changed_in_place,
    pair_of_tiles,
    namedtuples,
    list_made_anew,
    lists_that_swap,
    two_names_of_one_list,
    helper_that_changes_its_argument,
    variable_of_an_outer_function,
    global_variable,
    methods,
    slots,
    keys_of_both_branches,
    appended_in_both_branches,
    stack_of_a_round,
    queue,
    read_only_view,
    expressions,
    walrus,
    walrus_of_python,
    walrus_in_a_comprehension,
    loop_that_turns_traced,
    pointers_in_a_list,
    nested,
    restored_in_one_branch,
]


@pytest.mark.parametrize("program", WORKING, ids=lambda f: f.__name__)
def test_objects_change_as_in_python(program: Callable[..., None]) -> None:
    for n in SIZES:
        assert by_iris(program, n) == by_python(program, n), n


# Programs that Python runs and a kernel cannot: the line that changes the object says so.


def append_in_a_loop(get, put, n):
    found = []
    for i in range(n):
        found.append(get(i))  # here
    put(0, len(found))


def append_in_a_branch(get, put, n):
    found = [1]
    if n > 1:
        found.append(2)  # here
    put(0, len(found))


def new_key_in_a_branch(get, put, n):
    d = {"a": 1}
    if n > 1:
        d.update(b=2)  # here
    put(0, len(d))


def deleted_key(get, put, n):
    d = {"a": 1, "b": 2}
    if n > 1:
        del d["b"]  # here
    put(0, len(d))


def element_of_a_set(get, put, n):
    seen = {1}
    for _ in range(n):
        seen.add(2)  # here
        put(0, 1.0)
    put(1, len(seen))


def new_attribute(get, put, n):
    s = SimpleNamespace()
    if n > 1:
        s.x = 3  # here
    put(0, hasattr(s, "x"))


def flag_of_an_object(get, put, n):
    s = SimpleNamespace(mode="slow")
    if n > 1:
        s.mode = "fast"  # here
    put(0, s.mode == "fast")


def none_to_a_number(get, put, n):
    s = [None]
    for i in range(n):
        s[0] = get(i)  # here
    put(0, 1.0)


def helper_that_appends(get, put, n):
    found = []

    def keep(x):
        found.append(x)  # here
        return x

    total = 0.0
    for i in range(n):
        total += keep(get(i))
    put(0, total + len(found))


def list_becomes_another_of_two_names(get, put, n):
    a = [get(0)]
    b = a
    for _ in range(n):
        a[0] += 1.0
        a = [a[0] + 1.0]  # here
    put(0, a[0])
    put(1, b[0])


def either_of_two_lists(get, put, n):
    a, b = [get(0)], [get(1)]
    c = a
    if n > 1:
        c = b  # here
    c[0] = 5.0
    put(0, a[0])
    put(1, b[0])


def list_that_an_expression_chooses(get, put, n):
    a, b = [get(0)], [get(1)]
    c = a if n > 1 else b  # here
    c[0] = 5.0
    put(0, a[0])
    put(1, b[0])


def lists_of_lists_that_an_expression_makes(get, put, n):
    a, b = [get(0)], [get(1)]
    c = [a, b] if n > 1 else [b, a]  # here
    c[0][0] = 5.0
    put(0, a[0])


def list_that_is_chosen_and_changed(get, put, n):
    a, b = SimpleNamespace(x=get(0)), SimpleNamespace(x=get(1))
    (a if n > 1 else b).x = 5.0  # here
    put(0, a.x)


def list_of_a_closure_that_is_returned(get, put, n):
    a, b = [get(0)], [get(1)]

    def chosen():
        if n > 1:  # here
            return a
        return b

    chosen()[0] = 5.0
    put(0, a[0])
    put(1, b[0])


def list_of_an_object_that_is_returned(get, put, n):
    pair = SimpleNamespace(a=[get(0)], b=[get(1)])

    def chosen(s):
        if n > 1:  # here
            return 1, s.a
        return 2, s.b

    chosen(pair)[1][0] = 5.0
    put(0, pair.a[0])
    put(1, pair.b[0])


def new_list_of_two_names_in_a_branch(get, put, n):
    a = b = [get(0)]
    if n > 1:
        a = b = [get(1)]  # here
    a[0] = 9.0
    put(0, b[0])


def tuple_of_another_length(get, put, n):
    t = (get(0),)
    for i in range(n):
        t = (*t, get(i))  # here
    put(0, len(t))


def array_of_numpy(get, put, n):
    table = np.zeros(3, np.float32)
    for _ in range(n):
        table[0] += 1  # here
        put(0, 1.0)
    put(1, float(table[0]))


def array_of_python(get, put, n):
    table = array("i", [1, 2])
    if n > 1:
        table[0] = 5  # here
    put(0, table[0])


def bytes_that_change(get, put, n):
    view = memoryview(bytearray(b"abc"))
    for _ in range(n):
        view[0] = 1  # here
    put(0, view[0])


def condition_that_pops(get, put, n):
    work = [1, 2, 3]
    while n > work.pop():  # here
        put(0, 1.0)
    put(1, len(work))


def function_of_one_branch(get, put, n):
    if n > 1:

        def act(x):
            return x + 1.0

    else:

        def act(x):
            return x - 1.0

    put(0, act(get(0)))  # here


def walrus_in_a_while(get, put, n):
    k = 0
    while (k := k + 1) < n:  # here
        put(0, k)
    put(1, k)


def deleted_variable(get, put, n):
    x = get(0)
    if n > 1:
        del x
    else:
        put(0, 1.0)
    y = x + 1.0  # here
    put(1, y)


def iterator_that_goes_on(get, put, n):
    it = iter([1, 2, 3])
    if n > 1:
        next(it)  # here
    put(0, next(it))


def generator_that_goes_on(get, put, n):
    def values():
        yield 1
        yield 2
        yield 3

    it = values()
    if n > 1:
        put(1, next(it))  # here
    put(0, next(it))


def zip_that_goes_on(get, put, n):
    pairs = zip([1, 2, 3], [4, 5, 6], strict=True)
    if n > 1:
        next(pairs)  # here
    put(0, next(pairs)[1])


def enumerate_that_goes_on(get, put, n):
    pairs = enumerate([1, 2, 3])
    for _ in range(n):
        next(pairs)  # here
    put(0, next(pairs)[1])


def map_that_goes_on(get, put, n):
    doubled = map(operator.neg, [1, 2, 3])
    if n > 1:
        put(1, next(doubled))  # here
    put(0, next(doubled))


def product_that_goes_on(get, put, n):
    pairs = itertools.product([1, 2], repeat=2)
    next(pairs)
    if n > 1:
        put(1, next(pairs)[0])  # here
    put(0, next(pairs)[0])


def generator_that_goes_round(get, put, n):
    def values():
        for v in [1, 1, 1]:
            yield 2 * v

    it = values()
    next(it)
    if n > 1:
        next(it)  # here
    put(0, next(it))


def tee_that_goes_on(get, put, n):
    it, _ = itertools.tee([1, 2, 3])
    if n > 1:
        next(it)  # here
    put(0, next(it))


def tee_in_a_zip(get, put, n):
    it, _ = itertools.tee([1, 2, 3])
    if n > 1:
        for a, _b in zip(it, [1, 2], strict=False):
            put(1, a)  # here
    put(0, next(it))


def memory_that_goes_on(get, put, n):
    it = iter(memoryview(b"abc"))
    for _ in range(n):
        put(1, next(it))  # here
    put(0, next(it))


def map_of_memory_that_goes_on(get, put, n):
    it = map(operator.neg, iter(memoryview(b"abc")))
    if n > 1:
        next(it)  # here
    put(0, next(it))


def flat_array_that_goes_on(get, put, n):
    it = np.arange(3).flat
    if n > 1:
        put(1, sum([int(x) for x in it]))  # here
    put(0, it.index)


def deque_that_goes_on(get, put, n):
    it = iter(deque([1, 2, 3]))
    if n > 1:
        put(1, next(it))  # here
    put(0, next(it))


def long_range_that_goes_on(get, put, n):
    it = iter(range(2**70))
    if n > 1:
        put(1, next(it))  # here
    put(0, next(it))


def attribute_that_goes(get, put, n):
    s = SimpleNamespace(value=1, other=2)
    if n > 1:
        delattr(s, "value")  # here
    put(0, s.other)


def list_with_more(get, put, n):
    a = [1.0]
    if n > 1:
        a += [2.0]  # here
    put(0, len(a))


def generator_of_random_numbers(get, put, n):
    numbers = random.Random(7)
    if n > 1:
        numbers.random()  # here
    put(0, numbers.random())


def generator_of_numpy(get, put, n):
    numbers = np.random.default_rng(7)
    for _ in range(n):
        put(0, float(numbers.random()))  # here


def stream_that_goes_on(get, put, n):
    text = io.StringIO()
    if n > 1:
        text.write("more")  # here
    put(0, len(text.getvalue()))


def memory_of_c(get, put, n):
    pair = (ctypes.c_int * 2)(1, 2)
    if n > 1:
        pair[0] = 5  # here
    put(0, pair[0])


def queue_of_threads(get, put, n):
    work: SimpleQueue[float] = SimpleQueue()
    work.put(1.0)
    work.put(2.0)
    if n > 1:
        work.get()  # here
    put(0, work.get())


def variable_of_a_thread(get, put, n):
    mine = threading.local()
    mine.x = 1.0
    if n > 1:
        mine.x = get(0)  # here
    put(0, mine.x)


REFUSED: list[tuple[Callable[..., None], type[UserError], str]] = [
    (append_in_a_loop, CarriedError, "found gets found[0] in a traced loop"),
    (append_in_a_branch, CarriedError, "found"),
    (new_key_in_a_branch, CarriedError, "d['b'] in one branch of a traced condition"),
    (deleted_key, CarriedError, "d['b'] in one branch of a traced condition"),
    (element_of_a_set, CarriedError, "seen gets seen[2]"),
    (new_attribute, CarriedError, "s.x"),
    (flag_of_an_object, CarriedError, "s.mode is a str or a str, depending on a traced condition"),
    (none_to_a_number, CarriedError, "s[0] changes in a traced loop from a NoneType"),
    (helper_that_appends, CarriedError, "found gets found[0] in a traced loop"),
    (list_becomes_another_of_two_names, CarriedError, "a becomes another list"),
    (either_of_two_lists, CarriedError, "c becomes another list"),
    (list_that_an_expression_chooses, CarriedError, "becomes another list"),
    (lists_of_lists_that_an_expression_makes, CarriedError, "becomes another list"),
    (list_that_is_chosen_and_changed, CarriedError, "becomes another SimpleNamespace"),
    (list_of_a_closure_that_is_returned, CarriedError, "the returned value becomes another list"),
    (list_of_an_object_that_is_returned, CarriedError, "the returned value[1] becomes another"),
    (new_list_of_two_names_in_a_branch, CarriedError, "becomes another list"),
    (tuple_of_another_length, CarriedError, "t changes in a traced loop from a tuple of 1"),
    (array_of_numpy, CarriedError, "table"),
    (array_of_python, CarriedError, "table"),
    (bytes_that_change, CarriedError, "view"),
    (generator_of_random_numbers, CarriedError, "numbers changes in one branch"),
    (generator_of_numpy, CarriedError, "numbers changes in a traced loop"),
    (stream_that_goes_on, CarriedError, "text changes in one branch"),
    (memory_of_c, CarriedError, "pair changes in one branch"),
    (queue_of_threads, CarriedError, "work changes in one branch"),
    (variable_of_a_thread, CarriedError, "mine changes in one branch"),
    (condition_that_pops, CarriedError, "work loses work[2]"),
    (function_of_one_branch, ScopeError, "act is one function or another"),
    (walrus_in_a_while, ControlFlowError, "k is assigned in the condition of a traced while"),
    (iterator_that_goes_on, CarriedError, "the iterator it goes on in one branch"),
    (generator_that_goes_on, CarriedError, "the iterator it goes on in one branch"),
    (generator_that_goes_round, CarriedError, "the iterator it goes on in one branch"),
    (zip_that_goes_on, CarriedError, "the iterator pairs goes on in one branch"),
    (enumerate_that_goes_on, CarriedError, "the iterator pairs goes on in a traced loop"),
    (map_that_goes_on, CarriedError, "the iterator doubled goes on in one branch"),
    (product_that_goes_on, CarriedError, "the iterator pairs goes on in one branch"),
    (tee_that_goes_on, CarriedError, "the iterator it goes on in one branch"),
    (tee_in_a_zip, CarriedError, "the iterator it goes on in one branch"),
    (memory_that_goes_on, CarriedError, "the iterator it goes on in a traced loop"),
    (map_of_memory_that_goes_on, CarriedError, "the iterator it goes on in one branch"),
    (flat_array_that_goes_on, CarriedError, "the iterator it goes on in one branch"),
    (deque_that_goes_on, CarriedError, "the iterator it goes on in one branch"),
    (long_range_that_goes_on, CarriedError, "the iterator it goes on in one branch"),
    (attribute_that_goes, CarriedError, "s loses s.value in one branch"),
    (list_with_more, CarriedError, "a gets a[1] in one branch"),
    (deleted_variable, ScopeError, "x has a value after only one of the branches"),
]


@pytest.mark.parametrize(
    ("program", "kind", "message"), REFUSED, ids=lambda x: getattr(x, "__name__", "")
)
def test_what_cannot_be_followed_is_an_error_at_its_line(
    program: Callable[..., None], kind: type[UserError], message: str
) -> None:
    by_python(program, 1)
    with pytest.raises(UserError) as caught:
        by_iris(program, 2)
    error = caught.value
    print(f"\n{type(error).__name__}: {error}")
    assert type(error) is kind
    assert message in error.message
    assert error.spot is not None
    assert "# here" in error.spot.source
    assert error.spot.file == __file__


@iris.kernel
def sums_in_objects(X, Out, N: iris.constexpr, B: iris.constexpr, RANGE: iris.constexpr):
    items = [iris.zeros((B,)), 0.0]
    state = SimpleNamespace(s=iris.zeros((B,)))
    pair = (iris.zeros((B,)), 0)
    fresh = [iris.zeros((B,))]
    for i in RANGE(0, N, B):
        cols = i + iris.arange(0, B)
        x = iris.load(X + cols, mask=cols < N)
        items[0] = items[0] + x
        items[1] += x
        state.s = state.s + x
        pair = (pair[0] + x, pair[1])
        fresh = [f + x for f in fresh]
    for k, total in enumerate([*items, state.s, pair[0], *fresh]):
        iris.store(Out + k, iris.sum(total))


@pytest.mark.parametrize("loop", [range, iris.tile_range], ids=["unrolled", "traced"])
def test_masked_elements_of_objects_keep_the_old_ones(loop: Any) -> None:
    out = np.zeros(5, np.float32)
    sums_in_objects[1](np.ones(100, np.float32), out, N=100, B=64, RANGE=loop)
    assert out.tolist() == [100] * 5


def test_what_the_caller_of_a_kernel_holds_is_not_looked_at() -> None:
    looked_at = []

    class Private:
        @property
        def __dict__(self) -> dict[str, object]:  # type: ignore[override]
            looked_at.append(self)
            return {}

    held = Private()
    x, y, out = (np.ones((32, 32), np.float32) for _ in range(3))
    sizes = {"BM": 32, "BN": 32, "BK": 32}
    # A kernel of the package's own has a loop, and no frame of a user's between it and this one.
    kernels.matmul.lower(x, y, out, 32, 32, 32, grid=(1, 1), **sizes)
    assert held.__class__ is Private
    assert not looked_at
