"""Passes and pipelines of passes, and their text: `"cse,dce,assign-layouts{num-simdgroups=4}"`.

A pass is a frozen dataclass whose fields are its options:

    @dataclass(frozen=True)
    class Unroll(Pass):
        \"\"\"Unroll loops of few iterations.\"\"\"

        name = "unroll"
        level = Level.TILE
        most: int = 4

        def run(self, module: Module) -> None: ...

Defining it makes `unroll{most=8}` a word of the pipeline language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from enum import Enum
from typing import Any, ClassVar, get_args, get_type_hints

from iris.errors import DeclarationError, PipelineError, SettingError
from iris.ir.core import Level, Module
from iris.targets import DEFAULT, TARGETS, Target, find

PASSES: dict[str, type[Pass]] = {}


@dataclass(frozen=True)
class Pass:
    """The base of all passes."""

    name: ClassVar[str]
    level: ClassVar[Level | None] = None  # the level it works on; None: any

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        name = cls.__dict__.get("name")
        if name is None:  # a base for passes, not a pass
            return
        if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
            raise DeclarationError(
                f"a pass is called by lower-case words and hyphens, not {name!r}"
            )
        known = PASSES.get(name)
        # A class defined again, as in a notebook, takes the place of the one before.
        if known is not None and known.__qualname__ != cls.__qualname__:
            raise DeclarationError(f"two passes are called {name!r}: {known} and {cls}")
        PASSES[name] = cls

    def run(self, module: Module) -> Mapping[str, int] | None:
        """Change the module.  It may give counts of what it did, by name."""
        raise NotImplementedError

    def __str__(self) -> str:
        options = [
            f"{kebab(f.name)}={_option_text(getattr(self, f.name))}"
            for f in fields(self)
            if getattr(self, f.name) != f.default
        ]
        return f"{self.name}{{{','.join(options)}}}" if options else self.name


@dataclass(frozen=True)
class TargetPass(Pass):
    """The base of passes that ask what the target offers."""

    target: Target = DEFAULT


@dataclass(frozen=True)
class Pipeline:
    """Passes in order; its text parses back to it."""

    passes: tuple[Pass, ...] = ()

    @staticmethod
    def parse(text: str) -> Pipeline:
        return Pipeline(tuple(_parse_passes(text)))

    def __str__(self) -> str:
        return ",".join(map(str, self.passes))

    def __iter__(self) -> Iterator[Pass]:
        return iter(self.passes)

    def __len__(self) -> int:
        return len(self.passes)

    def on(self, target: Target) -> Pipeline:
        """The same passes, for a target."""
        return Pipeline(
            tuple([replace(p, target=target) if isinstance(p, TargetPass) else p for p in self])
        )

    def after(self, count: int) -> Pipeline:
        """What is left when `count` passes have run."""
        return Pipeline(self.passes[count:])


_ITEM = re.compile(r"\s*([A-Za-z0-9_-]+)\s*(?:\{([^{}]*)\})?\s*(,|$)")


def _parse_passes(text: str) -> Iterator[Pass]:
    if not text.strip():
        return
    position, separator = 0, ","
    while separator:
        item = _ITEM.match(text, position)
        if item is None:
            raise PipelineError(
                f"expected a pass, such as cse or name{{option=1}}, at {text[position:]!r}"
            )
        name, options, separator = item.groups()
        if name not in PASSES:
            raise PipelineError(
                f"no pass is called {name!r}; there are {', '.join(sorted(PASSES))}"
            )
        yield _make(PASSES[name], options or "")
        position = item.end()


def _make(cls: type[Pass], text: str) -> Pass:
    known = {kebab(f.name): f.name for f in fields(cls)}
    given: dict[str, Any] = {}
    for option in filter(None, map(str.strip, text.split(","))):
        name, equals, value = (part.strip() for part in option.partition("="))
        if name not in known:
            there = f"it has {', '.join(known)}" if known else "it has none"
            raise PipelineError(f"{cls.name} has no option {name!r}; {there}")
        if not equals or known[name] in given:
            why = "is given twice" if equals else "needs a value"
            raise PipelineError(f"{cls.name}: the option {name!r} {why}")
        # Few texts give options, and to look up their types takes long.
        type_ = get_type_hints(cls)[known[name]]
        given[known[name]] = _option_value(f"{cls.name}: {name}", type_, value)
    missing = [kebab(f.name) for f in fields(cls) if _is_required(f) and f.name not in given]
    if missing:
        raise PipelineError(f"{cls.name} needs a value for {', '.join(missing)}")
    return cls(**given)


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def kebab(name: str) -> str:
    """An option's name as it stands in text."""
    return name.replace("_", "-")


def _option_text(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _option_value(what: str, type_: Any, text: str) -> object:
    type_ = next((t for t in get_args(type_) if t is not type(None)), type_)  # of `int | None`
    table: Mapping[str, object] | None = None
    if type_ is Target:
        try:
            return find(text)
        except SettingError:
            table = TARGETS
    elif type_ is bool:
        table = {"true": True, "false": False}
    elif isinstance(type_, type) and issubclass(type_, Enum):
        table = {str(m.value): m for m in type_}
    if table is not None:
        if text not in table:
            raise PipelineError(f"{what} is one of {', '.join(table)}, not {text!r}")
        return table[text]
    try:
        return type_(text)
    except ValueError:
        raise PipelineError(f"{what} is of type {type_.__name__}, not {text!r}") from None
