"""Choosing register shapes: programs do the same, and texts of any shapes are right or refused."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from contextlib import redirect_stdout

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings

from iris.codegen import emit
from iris.compiler.arguments import place
from iris.errors import VerifyError
from iris.ir import verify
from iris.ir.control import Func
from iris.ir.core import Value
from iris.ir.metal import count_of
from iris.ir.types import Registers
from iris.passes import run
from iris.passes.metal.choose_register_shapes import ChooseRegisterShapes, alike
from iris.runtime.devices import select
from iris.testing import programs, roundtrips
from iris.testing.outcomes import Outcome
from iris.testing.texts import together
from iris.tools.replay import Program
from support import counts

TOGETHER = 25  # kernels in a text: a compiler takes long to start
SHAPES = ChooseRegisterShapes.name


def values(function: Func) -> Iterator[Value]:
    for op in function.walk():
        yield from op.results
        for region in op.regions:
            yield from region.arguments


def chosen(program: Program) -> Program:
    return program.with_module(run(program.module, SHAPES))


def held_anyhow(program: Program, seed: int) -> Program:
    """A program whose arrays are held in any shapes that the verifier takes."""
    made = chosen(program)
    rng = random.Random(seed)
    classes: dict[Value, list[Value]] = {
        v: [v] for v in values(made.function) if isinstance(v.type, Registers)
    }
    for op in made.function.walk():
        groups = alike.get(type(op))
        for group in [[*op.operands, *op.results]] if groups is None else groups(op):
            arrays = [v for v in group if v in classes]
            joined = list(dict.fromkeys(v for array in arrays for v in classes[array]))
            for value in joined:
                classes[value] = joined
    for value, together_ in classes.items():
        if value is together_[0]:
            count = count_of(value.type)
            lanes = rng.choice([n for n in (1, 2, 2, 4, 4, 8, 16) if count % n == 0])
            for other in together_:
                other.type = Registers(count, other.type.element, lanes)
    function = made.function
    function.set_returns(tuple([v.type for v in function.body.end.operands]))
    verify(made.module)
    return made


@settings(max_examples=counts(30, 2000))
@given(programs.metal())
def test_what_a_program_does_stays(program: Program) -> None:
    made = chosen(program)
    roundtrips(made.module)
    Outcome.of(program).compare(Outcome.of(made))
    assert all(
        v.type.lanes is not None for v in values(made.function) if isinstance(v.type, Registers)
    )
    assert run(made.module, SHAPES) == made.module


def outcome(program: Program, source: object) -> Outcome:
    """What the text of a program does on softmetal."""
    on = select("softmetal")
    arguments = program.make_arguments()
    arrays = {str(i): a for i, a in enumerate(arguments) if isinstance(a, np.ndarray)}
    placed = place(on, arrays)
    given_ = [placed.get(str(i), a) for i, a in enumerate(arguments)]
    output = io.StringIO()
    with redirect_stdout(output):
        on.launch(on.compile(program.function, source), program.grid, given_)
        on.synchronize()
    for name, array in arrays.items():
        on.copy_out(placed[name], array)
    return Outcome.gathered(program.function, arguments, [], output.getvalue().splitlines())


def test_texts_of_any_shapes_are_right_or_refused() -> None:
    drawn: list[Program] = []

    @settings(
        max_examples=counts(50, 2000),
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs.metal(portable=True))
    def draw(program: Program) -> None:
        drawn.append(program)

    draw()
    written, refused = [], 0
    for seed, program in enumerate(drawn):
        emit(chosen(program).function)
        made = held_anyhow(program, seed)
        try:
            written.append((program, made, emit(made.function)))
        except VerifyError as error:
            assert SHAPES in str(error)
            refused += 1
    assert refused and len(written) > len(drawn) // 10
    for start in range(0, len(written), TOGETHER):
        batch = written[start : start + TOGETHER]
        sources = together([source for _, _, source in batch])
        for (program, made, own), source in zip(batch, sources, strict=True):
            try:
                Outcome.of(program).compare(outcome(made, source))
            except AssertionError as error:
                raise AssertionError(f"{error}\n{made}\n{own.text}") from None
