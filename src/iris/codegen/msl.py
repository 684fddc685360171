"""Metal IR to the text of a kernel, op by op.

The emitter decides nothing that the IR does not say: it names, orders and abbreviates.  Its rules
are in the modules of this room, one small function per op; what the language looks like is a
table, `msl_table.MSL`.
"""

from __future__ import annotations

from iris.codegen import control, elementwise, matrices, memory, registers, reports, threads
from iris.codegen.expression import Expression, Precedence
from iris.codegen.language import Language
from iris.codegen.msl_table import MSL
from iris.codegen.names import Names
from iris.codegen.source import Array, Extent, Scalar, Source
from iris.codegen.writer import STEP, Writer
from iris.ir.control import Func
from iris.ir.core import Level, Value
from iris.ir.metal import SIMDGROUP_WIDTH
from iris.ir.types import DType, Ptr, i32

#: The modules whose rules a walk uses.
RULES = (control, elementwise, matrices, memory, registers, reports, threads)


def emit(function: Func, language: Language = MSL) -> Source:
    """The text of a kernel, and how it is launched."""
    if function.function_level is not Level.METAL:
        level = function.function_level.value
        raise function.invalid(f"only functions of the metal level are emitted, not of {level}")
    if not function.simdgroups:
        raise function.invalid("how many simdgroups run the kernel is not decided yet")
    return _Kernel(function, language).source()


class _Kernel:
    """One kernel: its parameters, its body, and all put together."""

    def __init__(self, function: Func, language: Language):
        self.function = function
        self.language = language
        self.writer = Writer(function, language)
        self.offset = 0  # in the constant struct
        self.fields: list[str] = []

    def source(self) -> Source:
        w, function = self.writer, self.function
        scalars: dict[Value, Scalar] = {}
        arrays: dict[Value, str] = {}
        for argument in function.body.arguments:
            hint = argument.name or "argument"
            if isinstance(argument.type, Ptr):
                name = w.names.new(hint)
                arrays[argument] = name
                element = self.language.memory_types[argument.type.element]
                w.expressions[argument] = Expression(name, Precedence.POSTFIX, element)
            elif isinstance(argument.type, DType):
                name = w.fields.new(hint)
                w.names.see(hint)
                type_ = self.language.types[argument.type]
                scalars[argument] = Scalar(self.field(type_, name, argument.type), argument.type)
                text = f"{self.language.constants_name}.{name}"
                w.expressions[argument] = Expression(text, Precedence.POSTFIX, type_)
            else:
                raise function.invalid(f"a kernel takes no {argument.type}")
        w.region(function.body)
        if function.body.end.operands:
            raise function.invalid("a kernel returns nothing")
        return self.assemble(arrays, scalars)

    def field(self, type_: str, name: str, dtype: DType) -> int:
        """Add a field to the constant struct: its offset."""
        size = dtype.bytes
        start = self.offset + -self.offset % size
        self.offset = start + size
        self.fields.append(f"{type_} {name};")
        return start

    def assemble(self, arrays: dict[Value, str], scalars: dict[Value, Scalar]) -> Source:
        w, language, function = self.writer, self.language, self.function
        numbers = {value: i for i, value in enumerate(function.body.arguments)}
        extents = []
        for (array, axis), name in w.extents.items():
            offset = self.field(language.types[i32], name, i32)
            extents.append(Extent(numbers[array], axis, offset))
        arguments: list[Array | Scalar] = []
        parameters = []
        buffer = 0
        for argument in function.body.arguments:
            if argument in scalars:
                arguments.append(scalars[argument])
                continue
            assert isinstance(argument.type, Ptr)
            written = argument in w.written
            element = language.memory_types[argument.type.element]
            type_ = element if written else f"const {element}"
            parameters.append(
                language.array.format(
                    device=w.qualifier(argument),
                    type=type_,
                    name=arrays[argument],
                    index=buffer,
                )
            )
            arguments.append(Array(buffer, argument.type.element, written))
            buffer += 1
        constants_buffer = report_buffer = None
        if self.fields:
            constants_buffer, buffer = buffer, buffer + 1
            parameters.append(language.constants.format(index=constants_buffer))
        if w.report is not None:
            report_buffer, buffer = buffer, buffer + 1
            parameters.append(language.report.format(name=w.report, index=report_buffer))
        parameters += [
            position.declaration.format(name=w.positions[usual])
            for usual, position in language.positions.items()
            if usual in w.positions
        ]
        entry = Names(language.keywords | language.functions).new(function.symbol)
        threads = SIMDGROUP_WIDTH * function.simdgroups
        text = self.text(entry, threads, parameters)
        return Source(
            text=text,
            entry=entry,
            threads=threads,
            arguments=tuple(arguments),
            extents=tuple(extents),
            constants_buffer=constants_buffer,
            constants_bytes=self.offset + -self.offset % 16,
            report_buffer=report_buffer,
            threadgroup_bytes=w.shared_bytes + -w.shared_bytes % 16,
            sites=tuple(w.sites),
            # The body is all that comes before the last line.
            first_line=text.count("\n") - len(w.lines),
            locations=tuple([line.location for line in w.lines]),
            version=w.version,
        )

    def text(self, entry: str, threads: int, parameters: list[str]) -> str:
        w, language = self.writer, self.language
        blocks = [language.prologue + ("" if w.fast else language.exact_pragma)]
        if self.fields:
            fields = "".join([f"{STEP}{field}\n" for field in self.fields])
            blocks.append(f"struct Params {{\n{fields}}};\n")
        blocks += w.helpers.values()
        head = language.kernel.format(threads=threads, name=entry)
        listed = "".join([f"\n{STEP}{parameter}," for parameter in parameters]).rstrip(",")
        top = [STEP + statement for statement in w.shared + w.opening]
        body = "".join([f"{line}\n" for line in [*top, *[line.text for line in w.lines]]])
        blocks.append(f"{head}{listed})\n{{\n{body}}}\n")
        return "\n".join(blocks)
