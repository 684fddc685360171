"""Random functions of C, as a CUDA file with a kernel for each."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

TYPES = ("int", "unsigned", "short", "unsigned char", "float", "long", "bool")
COUNTED = ("int", "unsigned")  # types whose expressions may have side effects
THREADS = 32
# Of all files.
MIXED = """\
__device__ int mixed(int &a, int &b, const int &c, int *all) {
    a += 3;
    b ^= a * 5;
    all[1] -= b;
    a += c;
    return b - c;
}
"""


class Draft:
    """A function `int name(int a, int b, unsigned c)`; nothing that it does is undefined."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.variables: list[tuple[str, str]] = []
        self.fixed: set[str] = set()  # counters of loops, which end
        self.loops = 0
        self.count = 0

    def function(self, name: str) -> str:
        self.variables = [("a", "int"), ("b", "int"), ("c", "unsigned")]
        body = "".join([self.statement(1) for _ in range(self.random.randrange(2, 6))])
        result = f"(int)({self.expression()}) ^ all[0] ^ a"
        start = "    int all[4] = {a, b, 3, (int)c};\n"
        head = f"__device__ int {name}(int a, int b, unsigned c) {{\n"
        return f"{head}{start}{body}    return {result};\n}}\n"

    # Expressions, which have no side effects: C says no order of these.

    def expression(self, depth: int = 0) -> str:
        choose = self.random
        if depth > 2 or choose.random() < 0.2:
            return self.atom()

        def part() -> str:
            return self.expression(depth + 1)

        def whole() -> str:
            return f"(int)({part()})"

        kinds: list[Callable[[], str]] = [
            lambda: f"({part()} {choose.choice('+-*')} {part()})",
            lambda: f"({part()} {choose.choice('+-*')} {part()})",
            lambda: f"({whole()} % 1000 {choose.choice('/%')} ({whole()} % 50 * 2 + 1))",
            lambda: f"({whole()} {choose.choice(['>>', '<<'])} ({whole()} & 7))",
            lambda: f"((unsigned){whole()} >> ({whole()} & 31))",
            lambda: f"({part()} {choose.choice(['<', '<=', '>', '>=', '==', '!='])} {part()})",
            lambda: f"({part()} {choose.choice(['&&', '||'])} {part()})",
            lambda: f"({part()} > {part()} ? {part()} : {part()})",
            lambda: f"({whole()} {choose.choice('&|^')} {whole()})",
            lambda: f"{choose.choice('-~!')}{whole()}",
        ]
        return choose.choice(kinds)()

    def atom(self) -> str:
        choose = self.random.random()
        if choose < 0.6:
            name, type_ = self.random.choice(self.variables)
            return f"(int){name}" if type_ == "float" else name
        if choose < 0.75:
            return f"all[(int)({self.expression(3)}) & 3]"
        return self.random.choice(["0", "1", "2", "7", "-3", "100", "255", "31u", "65535"])

    def value(self, type_: str) -> str:
        if type_ == "float":  # small, so that it is an integer again
            return f"(float)((int)({self.expression()}) % 1000) * 0.25f"
        return f"({type_})({self.expression()})"

    # Statements.

    def statement(self, depth: int) -> str:
        free = [(n, t) for n, t in self.variables if n not in self.fixed]
        counted = [n for n, t in free if t in COUNTED]
        choose, pad = self.random.random(), "    " * depth
        if choose < 0.2 or not free:
            name, type_ = self.fresh(), self.random.choice(TYPES)
            made = f"{pad}{type_} {name} = {self.value(type_)};\n"
            self.variables.append((name, type_))
            return made
        if choose < 0.4:
            name, type_ = self.random.choice(free)
            if type_ in COUNTED and self.random.random() < 0.5:
                operator = self.random.choice(["+", "-", "*", "^", "|"])
                return f"{pad}{name} {operator}= (int)({self.expression()});\n"
            return f"{pad}{name} = {self.value(type_)};\n"
        if choose < 0.5:
            return f"{pad}all[(int)({self.expression(2)}) & 3] = (int)({self.expression()});\n"
        if choose < 0.55:
            return pad + self.by_reference([v for v, type_ in free if type_ == "int"])
        if choose < 0.6 and counted:
            return pad + self.side_effect(self.random.choice(counted))
        if choose < 0.65 and self.loops:
            jump = self.random.choice(["break", "continue", f"return {self.value('int')}"])
            return f"{pad}if ({self.expression(1)}) {jump};\n"
        if depth > 2:
            return ""
        if choose < 0.7:
            return self.switch(depth)
        if choose < 0.85:
            test = self.expression(1)
            then, otherwise = self.block(depth), self.block(depth)
            return f"{pad}if ({test}) {{\n{then}{pad}}} else {{\n{otherwise}{pad}}}\n"
        return self.loop(depth)

    def side_effect(self, name: str) -> str:
        """A change within an expression, where C says when it is done."""
        return self.random.choice(
            [
                f"all[1] = {name}++ * 3;\n",
                f"all[2] = ({self.expression(1)}) > 0 ? ++{name} : 7;\n",
                f"all[3] = ({self.expression(1)}) && ({name} -= 3) > 9;\n",
                f"all[0] = {name}--, all[0] += {name};\n",
            ]
        )

    def by_reference(self, variables: list[str]) -> str:
        """A call whose references may be to one place, which its array leads to as well."""
        elements = [f"all[(int)({self.expression(2)}) & 3]" for _ in range(2)]
        a, b, c = [self.random.choice([*variables, *elements]) for _ in range(3)]
        c = self.random.choice([c, c, f"(int)({self.expression(2)})"])
        return f"all[{self.random.randrange(4)}] ^= mixed({a}, {b}, {c}, all);\n"

    def switch(self, depth: int) -> str:
        pad = "    " * depth
        labels = self.random.sample(["case -1", "case 0", "case 1", "case 2", "default"], 3)
        ends = [f"{pad}    break;\n", "", f"{pad}    return {self.value('int')};\n"]
        if self.loops:
            ends.append(f"{pad}    continue;\n")
        cases = [
            f"{pad}{label}: {{\n{self.block(depth)}{pad}}}\n{self.random.choice(ends)}"
            for label in labels
        ]
        return f"{pad}switch ((int)({self.expression(1)}) % 3) {{\n{''.join(cases)}{pad}}}\n"

    def loop(self, depth: int) -> str:
        pad, name = "    " * depth, self.fresh()
        most, step = self.random.randrange(1, 6), self.random.choice([f"{name}++", f"{name} += 2"])
        bound = self.random.choice(["", f" && {self.expression(2)}"])
        with self.looping(name):
            body = f"{{\n{self.block(depth)}{pad}}}"
        return self.random.choice(
            [
                f"{pad}for (int {name} = 0; {name} < {most}; {step}) {body}\n",
                f"{pad}for (int {name} = {most}; {name} >= 0; {name}--) {body}\n",
                f"{pad}for (int {name} = -{most}; {name} <= 0{bound}; {step}) {body}\n",
                f"{pad}int {name} = 0;\n{pad}while ({name}++ < {most}{bound}) {body}\n",
                f"{pad}int {name} = 0;\n{pad}do {body} while (++{name} < {most});\n",
            ]
        )

    @contextmanager
    def looping(self, name: str) -> Iterator[None]:
        self.variables.append((name, "int"))
        self.fixed.add(name)
        self.loops += 1
        yield
        self.loops -= 1
        self.variables.remove((name, "int"))

    def block(self, depth: int) -> str:
        outer = len(self.variables)
        made = [self.statement(depth + 1) for _ in range(self.random.randrange(1, 4))]
        del self.variables[outer:]
        return "".join(made)

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"


class RandomFile(NamedTuple):
    """The functions, kernels that call them, and what these are given."""

    names: list[str]
    functions: str
    kernels: str
    arguments: tuple[np.ndarray, np.ndarray, np.ndarray]


def drawn(seed: int) -> RandomFile:
    names = [f"f{i}" for i in range(4)]
    text = MIXED + "".join([Draft(4 * seed + i).function(name) for i, name in enumerate(names)])
    kernels = "".join(
        [
            f"__global__ void k{name}(const int *a, const int *b, const unsigned *c, int *out) {{\n"
            f"    int t = threadIdx.x;\n    out[t] = {name}(a[t], b[t], c[t]);\n}}\n"
            for name in names
        ]
    )
    numbers = np.random.default_rng(seed)
    a, b = numbers.integers(-50, 50, (2, THREADS)).astype(np.int32)
    c = numbers.integers(0, 1 << 32, THREADS).astype(np.uint32)
    a[0], b[1] = np.iinfo(np.int32).max, np.iinfo(np.int32).min
    return RandomFile(names, text, kernels, (a, b, c))
