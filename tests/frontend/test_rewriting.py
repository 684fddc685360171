"""Functions that a kernel calls are rewritten as it is, whatever kind of function they are."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import ControlFlowError, LanguageError, ShapeError, SourceError
from iris.frontend.rewriting import _first_definition
from iris.testing.sources import defined

N = 4  # of eight lanes those that count in `y`


def function(y: Any, x: Any) -> Any:
    s = 0.0
    s = s + y
    s = s + x
    return s  # noqa: RET504


def with_any_arguments(*values: Any, start: float = 0.0, **others: Any) -> Any:
    for value in (*values, *others.values()):
        start = start + value
    return start


@functools.wraps(function)
def wrapped(*values: Any, **others: Any) -> Any:
    return with_any_arguments(*values, **others)


def recursive(*values: Any) -> Any:
    s = 0.0
    if values:
        s = recursive(*values[:-1])
        s = s + values[-1]
    return s


def generator(y: Any, x: Any) -> Iterator[Any]:
    s = 0.0
    for value in (y, x):
        s = s + value
        yield s


def last(y: Any, x: Any) -> Any:
    for s in generator(y, x):  # noqa: B007
        pass
    return s


class Sum:
    """With a name of its own, and one that is also a method's."""

    def __init__(self) -> None:
        self.__total: Any = 0.0

    def add(self, x: Any) -> Sum:
        total = self.__total
        total = total + x
        self.__total = total
        assert isinstance(self, Sum)
        return self

    def __call__(self, *values: Any) -> Any:
        for value in values:
            self.add(value)
        return self.__total


class Twice(Sum):
    def add(self, x: Any) -> Sum:
        return super().add(x)

    @staticmethod
    def static(y: Any, x: Any) -> Any:
        y = y + 0.0
        s = y
        s = s + x
        return s  # noqa: RET504

    @classmethod
    def of(cls, y: Any, x: Any) -> Any:
        made = cls()
        return made(y, x)


by_lambda, other = lambda y, x: function(y, x), lambda y, x: function(x, y)

HELPERS: list[Callable[..., Any]] = [
    function,
    with_any_arguments,
    functools.partial(with_any_arguments, start=0.0),
    wrapped,
    recursive,
    last,
    by_lambda,
    Twice.of,
    lambda y, x: Sum()(y, x),
    lambda y, x: Sum().add(y)(x),
    lambda y, x: with_any_arguments(y, last=x),
]


@iris.kernel
def sums(X, Out, N, add: iris.constexpr):
    lanes = iris.arange(0, 8)
    y = iris.load(X + lanes, mask=lanes < N)
    iris.store(Out, iris.sum(add(y, iris.load(X + lanes))))


@pytest.mark.parametrize("add", HELPERS)
def test_a_helper_of_any_kind_updates_its_variables(add: Callable[..., Any]) -> None:
    x, out = np.arange(8, dtype=np.float32), np.zeros(1, np.float32)
    sums[1](x, out, N, add=add)
    assert out[0] == x[:N].sum() + x.sum()


def test_a_variable_that_starts_masked_stays_so() -> None:
    x, out = np.arange(8, dtype=np.float32), np.zeros(1, np.float32)
    sums[1](x, out, N, add=Twice.static)
    assert out[0] == 2 * x[:N].sum()


def test_lambdas_of_one_line_are_told_apart() -> None:
    @iris.kernel
    def both(X, Out, first: iris.constexpr, second: iris.constexpr):
        iris.store(Out, first(iris.load(X)))
        iris.store(Out + 1, second(iris.load(X)))

    up, down = lambda x: x + 1 if x > 0 else x, lambda x: x - 1 if x > 0 else x
    out = np.zeros(2, np.float32)
    both[1](np.full(1, 5, np.float32), out, first=up, second=down)
    assert list(out) == [6, 4]


def test_a_helper_has_control_flow() -> None:
    def clipped(x, limit):
        for _ in range(limit):
            x = x - 1 if x > limit else x
        while x > 2 * limit:
            x = x - limit
        return x

    @iris.kernel
    def clip(X, limit):
        iris.store(X, clipped(iris.load(X), limit))

    x = np.full(1, 20, np.float32)
    clip[1](x, 3)
    assert x[0] == 5  # 17, 14, 11, 8, 5


def test_a_helper_without_source_runs_as_it_is() -> None:
    made: dict[str, Any] = {}
    exec("def twice(x): return x + x", made)
    x, out = np.arange(8, dtype=np.float32), np.zeros(1, np.float32)
    sums[1](x, out, N, add=lambda y, x: made["twice"](y))
    assert out[0] == 2 * x[:N].sum()


@pytest.mark.parametrize(
    "text",
    [
        "def add(y, x):\n  s = 0.0\n  s = s + y\n  s = s + x\n  return s",
        "def add(s, x):\n  s += x\n  return s",
        "add = lambda y, x: (s := y, s := s + x)[-1]",
    ],
)
def test_a_helper_without_source_changes_no_variable(text: str) -> None:
    made: dict[str, Any] = {}
    exec(text, made)
    with pytest.raises(SourceError, match="Python cannot give the source of this function"):
        sums[1](np.zeros(8, np.float32), np.zeros(1, np.float32), N, add=made["add"])


def test_a_condition_in_what_python_calls_is_an_error() -> None:
    with pytest.raises(ControlFlowError, match="cannot be a condition here"):
        sums[1](
            np.zeros(8, np.float32),
            np.zeros(1, np.float32),
            N,
            add=lambda y, x: sorted([iris.sum(y), iris.sum(x)])[0],
        )


def test_a_helper_that_calls_itself_without_end_is_an_error() -> None:
    def again(y: Any, x: Any) -> Any:
        return again(y, x)

    with pytest.raises(LanguageError, match="recurses without end"):
        sums[1](np.zeros(8, np.float32), np.zeros(1, np.float32), N, add=again)


def test_functions_of_the_kernels_own_package_are_the_users(tmp_path: Any) -> None:
    """Also where it is installed beside other libraries."""
    folder = tmp_path / "site-packages" / "kernels_of_somebody"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "helpers.py").write_text(
        "def add(y, x):\n    s = 0.0\n    s = s + y\n    s = s + x\n    return s\n"
    )
    (folder / "kernels.py").write_text(
        "import iris\nfrom kernels_of_somebody import helpers\n\n"
        "@iris.kernel\ndef sums(X, Out, N):\n"
        "    lanes = iris.arange(0, 8)\n"
        "    y = iris.load(X + lanes, mask=lanes < N)\n"
        "    iris.store(Out, iris.sum(helpers.add(y, iris.load(X + lanes))))\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder.parent))
        from kernels_of_somebody import kernels  # type: ignore[import-not-found]

        x, out = np.arange(8, dtype=np.float32), np.zeros(1, np.float32)
        kernels.sums[1](x, out, N)
    assert out[0] == x[:N].sum() + x.sum()


def test_the_line_of_an_error_is_that_of_the_helper() -> None:
    text = "\n".join(
        [
            "def helper(x):",
            "    y = x",
            "    return iris.reshape(y, (3,))",
            "@iris.kernel",
            "def drawn(X):",
            "    iris.store(X, helper(iris.load(X + iris.arange(0, 4))))",
        ]
    )
    with pytest.raises(ShapeError, match="powers of two") as caught:
        defined(text)[1](np.zeros(4, np.float32))
    assert caught.value.spot is not None
    assert (caught.value.spot.line, caught.value.spot.column) == (3, 12)


def _functions_of(file: Path) -> Iterator[tuple[list[str], ast.FunctionDef]]:
    lines = linecache.getlines(str(file))
    for node in ast.walk(ast.parse("".join(lines))):
        if isinstance(node, ast.FunctionDef):
            yield lines, node


def test_a_definition_is_found_as_in_its_file() -> None:
    files = [*Path(__file__).parent.glob("*.py"), Path(inspect.__file__), Path(ast.__file__)]
    count = 0
    for lines, node in (found for file in files for found in _functions_of(file)):
        first = min([node.lineno, *[d.lineno for d in node.decorator_list]])
        found = _first_definition(lines, first - 1).body[0]
        if isinstance(found, ast.If):
            found = found.body[0]
        assert ast.dump(found, include_attributes=True) == ast.dump(node, include_attributes=True)
        count += 1
    assert count > 500


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    y = '''\nx\n'''\n# below\n    return y\n\nx = 1\n",
        "def f(\n    x,\n):\n    y = (x,\n1)\n    return \\\ny\nx = 1\n",
        "@g\n@g(\n1\n)\ndef f(x): return x\nx = 1\n",
        "if x:\n\tdef f(x):\n\t  y = x\n\t  return y\n\tx = 1\n",
        "def f():\n    x = '''\n" + "a\n" * 20 + "'''\n    return x\nx = 1\n",
        "def f(x):\n    return x",
    ],
)
def test_a_definition_ends_where_python_says(text: str) -> None:
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
    first = min([n.lineno for node in nodes for n in (node, *node.decorator_list)])
    found = _first_definition(text.splitlines(keepends=True), first - 1).body[0]
    if isinstance(found, ast.If):
        found = found.body[0]
    assert ast.dump(found, include_attributes=True) == ast.dump(nodes[0], include_attributes=True)
