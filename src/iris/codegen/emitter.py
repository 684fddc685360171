"""Metal IR to the text of a kernel, op by op.

The emitter decides nothing that the IR does not say: it names, orders and abbreviates.  Its rules
are in the modules of this room, one small function per op; what a language looks like is a table
in `languages`.
"""

from __future__ import annotations

from iris.analysis.matrices import OF_MATRICES
from iris.codegen import control, elementwise, matrices, memory, registers, reports, threads
from iris.codegen.expression import Expression, aligned, in_memory
from iris.codegen.language import Language
from iris.codegen.languages.msl import MSL
from iris.codegen.names import Names
from iris.codegen.source import Array, Extent, Scalar, Source
from iris.codegen.statements import STEP, Line, Run, set_block
from iris.codegen.tree import Name
from iris.codegen.writer import Writer
from iris.ir.collector import uncollected
from iris.ir.control import Func
from iris.ir.core import Level, Op, Value
from iris.ir.metal import SIMDGROUP_WIDTH, Mma, MmaShared
from iris.ir.types import DType, Ptr

#: The modules whose rules a walk uses.
RULES = (control, elementwise, matrices, memory, registers, reports, threads)


@uncollected()
def emit(function: Func, language: Language = MSL) -> Source:
    """The text of a kernel, and how it is launched."""
    if function.function_level is not Level.METAL:
        level = function.function_level.value
        raise function.invalid(f"only functions of the metal level are emitted, not of {level}")
    if not function.simdgroups:
        raise function.invalid("how many simdgroups run the kernel is not decided yet")
    of_matrices = [op for op in function.walk() if type(op) in OF_MATRICES]
    if of_matrices:
        language = language.of_matrices(language)
    tensors = [op for op in of_matrices if isinstance(op, MmaShared) or _has_tensors(op)]
    if tensors:
        if language.of_tensors is None:
            raise tensors[0].invalid(f"{language.name} has no tensors")
        language = language.of_tensors(language)
    return _Kernel(function, language).source()


def _has_tensors(op: Op) -> bool:
    return isinstance(op, Mma) and op.tensors


class _Kernel:
    """One kernel: its parameters, its body, and all put together."""

    def __init__(self, function: Func, language: Language):
        self.function = function
        self.language = language
        self.writer = Writer(function, language)

    def source(self) -> Source:
        ctx, function = self.writer, self.function
        scalars: dict[Value, Scalar] = {}
        for argument in function.body.arguments:
            hint, dtype = argument.name or "argument", argument.type.element
            if isinstance(argument.type, Ptr):
                name = Name(ctx.names.new(hint))
                ctx.expressions[argument] = Expression(name, in_memory(dtype))
            elif isinstance(argument.type, DType):
                ctx.names.see(hint)
                offset, field = ctx.field(hint, dtype)
                scalars[argument] = Scalar(offset, dtype)
                ctx.expressions[argument] = Expression(field, dtype)
            else:
                raise function.invalid(f"a kernel takes no {argument.type}")
        ctx.region(function.body)
        if function.body.end.operands:
            raise function.invalid("a kernel returns nothing")
        return self.assemble(scalars)

    def assemble(self, scalars: dict[Value, Scalar]) -> Source:
        ctx, language, function = self.writer, self.language, self.function
        arguments: list[Array | Scalar] = []
        parameters: list[str] = []  # the buffers come first
        for argument in function.body.arguments:
            if argument in scalars:
                arguments.append(scalars[argument])
                continue
            dtype, written = argument.type.element, argument in ctx.written
            element = language.types[in_memory(dtype)]
            # A compiler would assume that other threads never write to such an array.
            is_alone = argument.type_as(Ptr).noalias and not written
            arguments.append(Array(len(parameters), dtype, written))
            parameters.append(
                language.array.format(
                    device=ctx.qualifier(argument),
                    type=element if written else f"const {element}",
                    alone=language.alone if is_alone else "",
                    name=ctx.expressions[argument].tree,
                    index=len(parameters),
                )
            )
        constants_buffer = report_buffer = None
        if ctx.fields:
            constants_buffer = len(parameters)
            parameters.append(language.constants.format(index=constants_buffer))
        if ctx.report is not None:
            report_buffer = len(parameters)
            parameters.append(language.report.format(name=ctx.report, index=report_buffer))
        if language.grid is not None:
            parameters.append(language.grid)
        positions = [
            position.declaration.format(name=ctx.positions[usual])
            for usual, position in language.positions.items()
            if usual in ctx.positions
        ]
        if language.positions_are_parameters:
            parameters, positions = parameters + positions, []
        if language.kernel is None:
            positions = parameters + positions
        top = [Run(Name(declaration)) for declaration in positions]
        entry = Names(language.reserved).new(function.symbol)
        threads = SIMDGROUP_WIDTH * function.simdgroups
        lines = set_block([*top, *ctx.shared, *ctx.opening, *ctx.block], STEP)
        text = self.text(entry, threads, parameters, lines)
        return Source(
            text=text,
            entry=entry,
            threads=threads,
            arguments=tuple(arguments),
            extents=tuple(
                Extent(function.body.arguments.index(array), axis, offset)
                for (array, axis), (offset, _) in ctx.extents.items()
            ),
            constants_buffer=constants_buffer,
            constants_bytes=aligned(ctx.fields_bytes, 16),
            report_buffer=report_buffer,
            threadgroup_bytes=aligned(ctx.shared_bytes, 16),
            sites=tuple(ctx.sites),
            # The body is all that comes before the last line, which ends the kernel.
            first_line=text.count("\n") - len(lines) + (language.kernel is None),
            locations=tuple([line.location for line in lines]),
            version=ctx.version,
        )

    def text(self, entry: str, threads: int, parameters: list[str], lines: list[Line]) -> str:
        ctx, language = self.writer, self.language
        blocks = [language.prologue + ("" if ctx.fast else language.exact_pragma)]
        if ctx.fields:
            fields = "".join([f"{STEP}{field}\n" for field in ctx.fields])
            blocks.append(f"struct Params {{\n{fields}}};\n")
        blocks += [text for text in ctx.helpers.values() if text]
        body = "".join([f"{line.text}\n" for line in lines])
        if language.kernel is not None:
            count = self.function.resident_programs
            residents = language.residents.format(count=count) if count else ""
            head = language.kernel.format(threads=threads, residents=residents, name=entry)
            listed = "".join([f"\n{STEP}{parameter}," for parameter in parameters]).rstrip(",")
            body = f"{head}{listed})\n{{\n{body}}}\n"
        blocks.append(body)
        return "\n".join(blocks)
