"""A cost model: what a kernel costs on each generation of GPUs, found without running it.

An *estimate* gives, per program and chip, the cycles that each part of a core is busy with what the
program does (`counts`), and how many programs a core holds at once.  A part that many share is the
bottleneck: arithmetic (matrix products use the same hardware), threadgroup memory, shuffles, the
caches, or the chip's memory.  It is kept busy only while there are enough others to wait for: a
program that meets at barriers does one thing after the other, and only other programs fill the
gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod

from iris.cost.counts import Counts, accesses, count
from iris.cost.occupancy import simdgroups_per_core
from iris.cost.resources import Needs, needs_of
from iris.cost.sample import Sizes
from iris.cost.traffic import MOST_FOLLOWED, Traffic
from iris.ir import metal
from iris.ir.control import Func
from iris.ir.core import Value
from iris.ir.metal import SIMDGROUP_WIDTH
from iris.ir.types import Ptr
from iris.targets import DEFAULT, Core, Target
from iris.targets.apple import GENERATIONS

_SPENT = ("alu", "matrix", "shared", "shuffle", "L1", "L2")  # where a program spends cycles


@dataclass(frozen=True)
class OnChip:
    """What a kernel costs on a chip."""

    chip: Target
    simdgroups: int  # that a core holds at once
    spent: dict[str, float]  # cycles of a core that a program spends, by where
    cycles: float  # of a core, between two programs that end
    milliseconds: float  # of a launch
    busy: dict[str, float]  # the part of that time which each part of the chip alone would take
    peak: float  # the part of what the chip can compute

    @property
    def bottleneck(self) -> str:
        return max(self.busy, key=self.busy.__getitem__)

    @property
    def bandwidth(self) -> float:
        """The part of the launch in which its memory is busy."""
        return self.busy["memory"]

    def limit(self, registers: int, memory: int) -> str:
        """What limits it, with the registers of a thread and the memory of a threadgroup."""
        return (
            f"limited by {self.bottleneck}, with {registers} registers a thread, {memory} bytes of "
            f"threadgroup memory, {self.simdgroups} simdgroups on a core"
        )


@dataclass(frozen=True)
class Estimate:
    """What a kernel costs; `print` shows a line for each chip."""

    symbol: str
    sizes: Sizes
    simdgroups: int
    registers: int  # of 32 bits, of a thread
    threadgroup_bytes: int
    counts: Counts
    chips: tuple[OnChip, ...]

    def __str__(self) -> str:
        head = (
            f"@{self.symbol}: {self.sizes.programs} programs of {self.simdgroups} simdgroups, "
            f"{self.registers} registers a thread, {self.threadgroup_bytes} bytes of threadgroup "
            "memory"
        )
        columns = ("chip", "held", *_SPENT, "cycles", "bottleneck", "ms", "peak", "memory")
        rows = [columns, *map(_row, self.chips)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        return "\n".join([head, _sentence(self.counts), *lines])


def _row(on: OnChip) -> tuple[str, ...]:
    return (
        on.chip.name,
        str(on.simdgroups),
        *[f"{on.spent[what]:.0f}" for what in _SPENT],
        f"{on.cycles:.0f}",
        on.bottleneck,
        f"{on.milliseconds:.4f}",
        f"{on.peak:.0%}",
        f"{on.bandwidth:.0%}",
    )


def _sentence(counts: Counts) -> str:
    """What a program does, leaving out what it does not."""
    parts = [
        (counts.mmas, "matrix products"),
        (counts.flops, "flops"),
        *[(n, name) for name, n in counts.functions.items()],
        (counts.integers, "integer operations"),
        (counts.device.bytes, "bytes"),
        (counts.device.lines, "lines"),
        (counts.shared.bytes, "bytes shared"),
        (counts.shuffles, "shuffles"),
        (counts.atomics, "atomics"),
        *[(n, f"{scope} barriers") for scope, n in counts.barriers.items()],
        (counts.guesses, "guesses"),
    ]
    return "a program: " + ", ".join(f"{n} {what}" for n, what in parts if n)


def estimate(
    function: Func,
    sizes: Sizes = Sizes(),  # noqa: B008
    target: Target = DEFAULT,
) -> Estimate:
    """What a launch of a kernel in Metal IR, lowered for a target, costs there and on each
    generation of Apple's GPUs that has room for it."""
    needs = needs_of(function, target)
    simdgroups = max(1, function.simdgroups)
    counts = count(function, sizes, target)
    traffic = _traffic(function, counts, sizes, target)
    looped = _registers_of_loops(function, needs)

    chips = []
    for chip in dict.fromkeys((*GENERATIONS, target)):
        registers = None if chip.dynamic_registers else needs.registers
        held = simdgroups_per_core(needs.memory, simdgroups, chip, registers)
        if held:
            moved = traffic.moved(chip.cache_bytes, max(1, chip.cores * held // simdgroups))
            room = chip.registers_among(simdgroups * chip.simdgroup_width)
            spilled = 1 - room / max(room, looped)
            chips.append(on_chip(chip, counts, sizes, simdgroups, held, moved, spilled))
    return Estimate(
        function.symbol, sizes, simdgroups, needs.registers, needs.memory, counts, tuple(chips)
    )


def _registers_of_loops(function: Func, needs: Needs) -> int:
    """The registers of a thread inside of loops.  Elsewhere the compiler computes in another order
    if there are too few."""
    loops = [op for op in function.walk() if op.loops and not isinstance(op, metal.Foreach)]
    inside = [needs.pressure.at[op] for loop in loops for op in loop.walk()]
    return -(-max(inside, default=0) // 2)


def _traffic(function: Func, counts: Counts, sizes: Sizes, target: Target) -> Traffic:
    """What a launch moves between memory and caches, whatever their size."""
    arrays: dict[Value, int] = {}
    touched: dict[Value, int] = {}
    for value in function.body.arguments:
        touched[value] = counts.touched[value] * target.line_bytes * sizes.programs
        shape = sizes.of_argument(value)
        if isinstance(value.type, Ptr) and isinstance(shape, tuple):
            arrays[value] = prod(shape) * value.type.element.bytes
    followed = min(sizes.programs, MOST_FOLLOWED)
    return Traffic(
        arrays,
        touched,
        sizes.programs,
        lambda: accesses(function, sizes, target, followed),
    )


def _arithmetic(counts: Counts, core: Core) -> float:
    """The cycles that arithmetic takes, by all parts of a core that can compute at a time.

    Functions of products of matrices wait for these, and the products of another iteration for the
    functions.
    """
    taken = {part: n / core.rates[part] for part, n in counts.work.items()}
    if counts.mmas or not core.pipes:
        return sum(taken.values())
    started = sum(counts.work.values()) / (core.schedulers * SIMDGROUP_WIDTH)
    return max(started, *[sum([taken.get(part, 0) for part in pipe]) for pipe in core.pipes])


def _spent(counts: Counts, chip: Target, kept: float = 0, spilled: float = 0) -> dict[str, float]:
    """The cycles of a core that it takes to do what is counted, by where.

    `kept` is the share of repeated loads that hit the first cache.  `spilled` is the share of
    results without registers: they are stored to the second cache, and loaded from the first.
    """
    core = chip.core
    spills = spilled * counts.results
    passed = counts.device.passed - kept * counts.again + spills
    return {
        "alu": _arithmetic(counts, core),
        "matrix": counts.mmas * core.mma_cycles / core.schedulers,
        "shared": float(counts.shared.cycles),
        "shuffle": counts.shuffles * SIMDGROUP_WIDTH * 4 / core.shuffle_bytes,
        "L1": (counts.device.bytes + 2 * spills) / core.l1_bytes,
        "L2": passed / core.l2_bytes,
    }


def _in_turn(counts: Counts, spent: Mapping[str, float]) -> float:
    """The cycles that it takes to do one thing after the other: nobody waits for what is stored."""
    return sum(spent.values()) - (1 - counts.device.loads) * (spent["L1"] + spent["L2"])


def on_chip(
    chip: Target,
    counts: Counts,
    sizes: Sizes,
    simdgroups: int,
    held: int,
    moved: int,
    spilled: float = 0,
) -> OnChip:
    """The cost of a launch: each program does the counted work, a core holds `held` simdgroups at
    once, `moved` bytes go through memory, and `spilled` is the part of results that threads have no
    registers for.

    The programs of the last round, which do not fill the cores, take as long as a launch of their
    own: few of them can neither hide that they wait, nor use all of the chip's memory.  How long
    they wait is known where the latency of memory is; and few simdgroups that do not wait for
    copies keep the hardware of matrices busy.  Elsewhere rounds are not told apart."""
    round_ = chip.cores * held // simdgroups
    waits = chip.core.latency_cycles and not (counts.copies and counts.mmas)
    last = sizes.programs % round_ if waits else 0
    parts = [
        _run(chip, counts, programs, simdgroups, held, moved * programs / sizes.programs, spilled)
        for programs in (sizes.programs - last, last)
        if programs
    ]
    if not parts:
        parts = [_run(chip, counts, 0, simdgroups, held, moved, spilled)]
    seconds = {name: sum([part.seconds[name] for part in parts]) for name in parts[0].seconds}
    slowest = sum([part.slowest for part in parts])
    flops = (counts.flops + 2 * 8**3 * counts.mmas) * sizes.programs
    most = 2 * chip.core.rates["alu"] * chip.cores * chip.clock * 1e9
    return OnChip(
        chip,
        held,
        parts[0].spent,
        parts[0].cycles,
        slowest * 1e3,
        {name: n / slowest if slowest else 0.0 for name, n in seconds.items()},
        flops / most / slowest if slowest else 0.0,
    )


@dataclass(frozen=True)
class _Run:
    """What it costs to run some of the programs of a launch."""

    spent: dict[str, float]  # cycles of a core, by where
    cycles: float  # of a core, between two programs that end
    seconds: dict[str, float]  # that each part of the chip is busy
    slowest: float  # the seconds that all takes


def _busy_by_sums(core: Core, simdgroups: int, adding: float) -> float:
    """The part of the time that arithmetic is busy, if each simdgroup waits for a term, and then
    has a scheduler add it to all of its sums, which takes `adding` cycles.

    Simdgroups wait at times that are independent, and a scheduler is idle while all of its own do.
    """
    waits = core.threadgroup_cycles / (core.threadgroup_cycles + adding)
    each = simdgroups / core.schedulers
    return float(min(1, each) * (1 - waits ** max(1, each)))


def _computing(counts: Counts, core: Core, alu: float, simdgroups: int) -> float:
    """The cycles that arithmetic takes by some simdgroups, where enough of them take `alu`."""
    sums = sum([n / core.rates[part] for part, n in counts.sums.items()])
    if not (sums and core.threadgroup_cycles):
        return alu / min(1, simdgroups / core.saturating_simdgroups)
    adding = sums / _busy_by_sums(core, simdgroups, core.schedulers * sums / counts.terms)
    return adding + (alu - sums) / min(1, simdgroups / core.saturating_simdgroups)


def _run(
    chip: Target,
    counts: Counts,
    count: int,
    simdgroups: int,
    held: int,
    moved: float,
    spilled: float,
) -> _Run:
    """The cost of `count` programs, which move `moved` bytes; else as in `on_chip`."""
    core = chip.core
    each = ceil(count / chip.cores)  # programs that a core runs, one after the other
    # Simdgroups; a launch of no programs takes no time, but each would be on a core.
    together = min(held, max(each, 1) * simdgroups)
    programs = together / simdgroups
    # What the programs on a core load again is in its cache, as far as that holds what they load.
    kept = min(1, core.l1_cache_bytes / max(1, programs * (counts.fetched - counts.again)))
    spent = _spent(counts, chip, kept, spilled)
    barriers = counts.barriers["threadgroup"] + counts.barriers["device"]
    if chip.copies and counts.mmas:
        # What products stage is copied meanwhile, and a simdgroup that has passed a barrier
        # multiplies while another loads: what each barrier costs is the time until it does.
        waiting = (max(spent.values()) + barriers * core.barrier_cycles) / programs
    else:
        # Those that meet at a barrier do one thing after the other.
        alone = counts.apart
        apart = 0.0 if alone is None else _in_turn(alone, _spent(alone, chip, kept, spilled))
        met = _in_turn(counts, spent) - apart
        waiting = met / (programs if barriers else together) + apart / together
    # With fewer simdgroups the hardware waits for results.
    slow = _computing(counts, core, spent["alu"], together)
    matrix = spent["matrix"] / min(1, together / core.schedulers)
    # What cores without programs do not ask for the others get, up to what one can take.
    idle = chip.cores / min(chip.cores, max(count, 1))
    share = max(core.l2_bytes, min(core.l2_port_bytes, core.l2_bytes * idle))
    # What products take from threadgroup memory is loaded an iteration before.
    is_staged = bool(counts.mmas or counts.sums) and counts.shared.loaded >= counts.device.loaded
    ahead = bool(counts.copies) or is_staged
    # Until an iteration has what it loads, and all simdgroups are at a barrier.
    delay = counts.waits * core.latency_cycles + barriers * core.barrier_cycles
    bounds = {
        "arithmetic": max(slow, matrix) if core.has_matrix_units else slow + matrix,
        "shared": spent["shared"],
        "shuffle": spent["shuffle"],
        "L1": spent["L1"],
        "L2": spent["L2"] * core.l2_bytes / share,
        "latency": 0 if ahead else delay / programs,
        "waiting": waiting,
    }
    hertz = chip.clock * 1e9
    cycles = max(bounds.values())
    seconds = {name: bound * each / hertz for name, bound in bounds.items()}
    seconds["memory"] = moved / (chip.reach * chip.bandwidth * 1e9)
    slowest = max(seconds.values())
    if core.latency_cycles and not ahead:
        # The programs of a wave load together and then compute; only the next wave loads meanwhile.
        # Of many programs on a core, and many waves, each loads and computes at times of its own.
        moving = max(seconds[name] for name in ("memory", "L1", "L2"))
        loading = max(moving, seconds["latency"] + counts.device.loads * moving / programs)
        computing = sum(seconds[name] for name in ("arithmetic", "shared", "shuffle"))
        waves = max(1, each // programs * max(1, counts.waits))
        power = 1 + (1 - 1 / waves) * (1 - 1 / programs)
        slowest = max(slowest, (loading**power + computing**power) ** (1 / power))
    return _Run(spent, cycles, seconds, slowest)
