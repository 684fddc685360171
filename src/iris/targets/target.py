"""A target: what passes and costs may ask of a GPU.

A target is data, never a live device: nothing here opens a framework or asks the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf, pi
from types import MappingProxyType

#: How far a math function of f32 may be from the truth, in units of the last place of that.
#: [Metal Shading Language Specification, numerical compliance: single precision without fast
#: math; other functions, such as `sqrt`, are rounded correctly]
ULPS: Mapping[str, float] = MappingProxyType(
    {
        "cos": 4,
        "exp": 4,
        "exp2": 4,
        "log": 4,
        "log2": 4,
        "pow": 16,
        "rsqrt": 0,
        "sin": 4,
        "tanh": 5,
        # Expanded: as below, and what an `exp` that is off by 4 adds to that.
        "erf": 2,
        "sigmoid": 10,
    }
)
#: The same for what Metal has not, expanded (`expand-math`), if all that it is expanded to is
#: rounded correctly.
EXPANSION_ULPS: Mapping[str, float] = MappingProxyType({"erf": 1, "sigmoid": 3})


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How far a function of f32 may be from the truth.

    >>> FAST_MATH["exp"].ulps_per_unit
    2
    """

    ulps: float = 0.0  # units in the last place of the truth
    ulps_per_unit: float = 0.0  # as many more for each 1 that the argument is away from 0
    distance: float = 0.0  # in place of units
    domain: tuple[float, float] = (-inf, inf)  # nothing is promised for other arguments


EXACTLY = Accuracy()

#: The same with fast math.  [Metal Shading Language Specification 4.1, table 8.2: single precision
#: with fast math]  `sqrt` is `x * rsqrt(x)`, special cases handled.  Kernels call the precise forms
#: of `log`, `log2`, `tanh` and `pow`: the fast ones have no value for some plain arguments.
FAST_MATH: Mapping[str, Accuracy] = MappingProxyType(
    {
        "cos": Accuracy(distance=2.0**-13, domain=(-pi, pi)),
        "exp": Accuracy(ulps=3, ulps_per_unit=2),
        "exp2": Accuracy(ulps=3, ulps_per_unit=2),
        **{name: Accuracy(ULPS[name]) for name in ("log", "log2", "pow", "tanh")},
        "rsqrt": Accuracy(ulps=2),
        "sin": Accuracy(distance=2.0**-13, domain=(-pi, pi)),
        "sqrt": Accuracy(ulps=3),
        "div": Accuracy(ulps=2.5),  # where the reciprocal of the divisor is a normal number, too
        # Expanded: twice what `exp` may be off, as a unit of that may be two of these; and of the
        # exponential that `sigmoid` divides by, what `div` promises nothing for.
        "erf": Accuracy(ulps=6),
        "sigmoid": Accuracy(ulps=14, ulps_per_unit=4, domain=(-87, inf)),
    }
)


#: Elements in a cycle: `alu` does fused multiply-adds of floats of 16 or 32 bits, and sums of
#: integers; `int_mul` products of these, `wide` integers of 64 bits; the others are functions, of
#: which `exp2` is `log2`, too.
RATES: Mapping[str, float] = MappingProxyType(
    {
        "alu": 128,
        "choice": 128,
        "int_mul": 32,
        "wide": 32,
        "exp2": 32,
        "recip": 21,
        "rsqrt": 16,
        "sin": 9,
    }
)


@dataclass(frozen=True, slots=True)
class Core:
    """What one core of a GPU does in a cycle, and how many threads it can hold.

    Measured on M1 and M2 [philipturner/metal-benchmarks], if nothing else is said.  Of later cores
    nothing of the kind is published: they are taken to do as much.
    """

    #: Elements that each part of the arithmetic hardware computes; see `RATES`.
    rates: Mapping[str, float] = field(default_factory=lambda: RATES, hash=False)
    #: Groups of these parts.  Groups compute at the same time, and the parts of one take turns.
    #: A scheduler starts one instruction of a simdgroup in a cycle.  Empty: all parts take turns.
    pipes: tuple[tuple[str, ...], ...] = ()
    #: Cycles that a simdgroup takes for a product of 8x8 matrices, on the same hardware as
    #: fused multiply-adds: 17 to 18, where those of the product alone would take 16.  Four
    #: simdgroups at a time.
    mma_cycles: float = 17.5
    #: Whether matrices have hardware of their own, beside that for other arithmetic.
    has_matrix_units: bool = False
    schedulers: int = 4
    #: Bytes: given by lanes to each other, and from the two caches.
    shuffle_bytes: float = 256
    l1_bytes: float = 64
    l2_bytes: float = 32
    #: What the first of them holds.
    l1_cache_bytes: int = 8 * 1024
    #: The same from the second if other cores ask for less; 0: no more than that.
    l2_port_bytes: float = 0
    #: Simdgroups that keep the arithmetic busy.
    saturating_simdgroups: int = 24
    #: From a load until memory answers.  0: no figure is published.
    latency_cycles: float = 0
    #: From a load of threadgroup memory until a thread has it.  0: no figure is published.
    threadgroup_cycles: float = 0
    #: Elements of `alu` that a function takes beside what `Facts.work` says, if it has to be as
    #: exact as `Target.ulps`.
    exactness: Mapping[str, int] = field(default_factory=dict, hash=False)
    #: From a barrier until matrices are multiplied again, where nothing else is waited for.
    barrier_cycles: float = 0
    #: Bytes of its largest tile that a thread should hold in a program that reduces, where others
    #: run while it waits for all of its simdgroups.
    reduced_bytes: int = 32
    #: How many threads fit a core, by the most registers of 16 bits that each has; the last are
    #: all that a thread can have.  [Mesa: agx_performance.c]
    occupancy: tuple[tuple[int, int], ...] = (
        (104, 1024),
        (112, 896),
        (128, 832),
        (136, 768),
        (144, 704),
        (160, 640),
        (184, 576),
        (208, 512),
        (232, 448),
        (256, 384),
    )

    @property
    def register_bytes(self) -> int:
        """What the registers of all threads hold."""
        return max(2 * halves * threads for halves, threads in self.occupancy)


@dataclass(frozen=True, slots=True)
class Matrices:
    """How the hardware multiplies matrices; the defaults are true of Apple's GPUs."""

    #: How many fragments it takes at once: of the left operand below each other, and along the
    #: depth of a product.
    rows: int = 1
    depth: int = 1
    #: Whether it takes the fragments of the right operand transposed.
    transposed: bool = False
    #: Whether it loads fragments of threadgroup memory by whole rows.
    loads_rows: bool = False
    #: Whether it does multiply them; else `metal.mma` is made of scalar arithmetic.
    multiplies: bool = True
    #: Whether it multiplies tensors: 16x16 matrices by 16x32 ones. [MLX 0.32.4: BaseNAXFrag]
    tensors: bool = False
    #: Whether the factors of such a product stay in threadgroup memory, where both are there.
    tensors_in_memory: bool = False

    def products(self, rows: int, columns: int, depth: int) -> int:
        """The products of two fragments that it does: an incomplete group takes as long as a whole
        one."""
        tall = -(-rows // self.rows) * self.rows
        deep = -(-depth // self.depth) * self.depth
        return tall * columns * deep


@dataclass(frozen=True, slots=True)
class Target:
    """A GPU: its speed, limits and geometry.  The defaults hold for every Apple7+ family.

    >>> Target("mine", cores=8, clock=1.28, bandwidth=68).threadgroup_bytes
    32768
    """

    name: str
    cores: int
    clock: float  # GHz
    bandwidth: float  # GB/s of memory, nominal
    core: Core = Core()
    #: Matrices of elements of 16 bits, and of 32.
    matrices: Mapping[int, Matrices] = field(
        default_factory=lambda: {16: Matrices(), 32: Matrices()}, hash=False
    )
    maker: str = "Apple"
    #: Whether a thread has registers as it needs them.  Else it has, from start to end, the most
    #: that it needs at any point.
    dynamic_registers: bool = False
    #: For how long a dispatch keeps the next, which needs what it writes, from starting.
    #: [a public thread, of a serial encoder; not checked elsewhere]
    dispatch_microseconds: float = 1.3
    #: The part of `bandwidth` that kernels reach at most.  1: no figure is published.
    reach: float = 1
    #: Threads in a simdgroup. [MLX, tinygrad: source]
    simdgroup_width: int = 32
    #: Threads in a threadgroup; a pipeline may allow fewer (896 seen). [MLX, tinygrad: source]
    max_threads: int = 1024
    #: Threadgroup memory of one threadgroup. [MLX, tinygrad: source]
    threadgroup_bytes: int = 32 * 1024
    #: Threadgroup memory of a core, for all threadgroups on it.
    #: [philipturner/metal-benchmarks, M1 and M2]
    core_threadgroup_bytes: int = 60 * 1024
    #: Registers of 32 bits that a thread can have: 256 of 16 bits. [Mesa: agx_performance.c] About
    #: 124 are there for values; with 128 live ones some spill. [meTile, M5]
    thread_registers: int = 128
    #: Whether copies to threadgroup memory go on by themselves (`metal.copy`).
    copies: bool = False
    #: Banks of threadgroup memory, and the bytes each serves per cycle. Undocumented by Apple;
    #: found by probing an M5. [meTile: source]
    banks: int = 32
    bank_bytes: int = 4
    #: A cache line of device memory. [philipturner/metal-benchmarks, M1 and M2]
    line_bytes: int = 128
    #: What of a line is fetched at a time; no figure is published.
    sector_bytes: int = 128
    #: The last cache before memory, which all cores share. [philipturner/metal-benchmarks, M1 and
    #: M2; of later ones nothing is published]
    cache_bytes: int = 8 * 2**20
    #: What setBytes:length:atIndex: takes: arguments that are in no buffer. [Apple: Metal]
    constant_bytes: int = 4096
    #: Buffers that one kernel can bind. [MLX, tinygrad: source; mlx-vlm #1799]
    buffer_bindings: int = 31
    #: The element widths that atomic operations take, in bits. [Metal Shading Language
    #: Specification: of atomic_int, atomic_uint and atomic_float all families have all operations]
    atomic_bits: tuple[int, ...] = (32,)
    #: Whether threadgroups that run go on while others wait for them.  [Metal promises neither that
    #: nor that all threadgroups of a launch run at a time]
    forward_progress: bool = False
    #: The version of the language that texts may ask for.  [macOS 15]
    language: tuple[int, int] = (3, 2)
    #: How far off each math function of f32 may be; see `ULPS`.
    ulps: Mapping[str, float] = field(default_factory=lambda: ULPS, hash=False)
    #: The same with fast math; see `FAST_MATH`.
    fast_math: Mapping[str, Accuracy] = field(default_factory=lambda: FAST_MATH, hash=False)
    #: The same where the result is rounded to 16 bits, of functions for which that is less exact.
    coarse: Mapping[str, Accuracy] = field(default_factory=dict, hash=False)

    @property
    def fences(self) -> bool:
        """Whether a thread can order what it stores for other threadgroups, by fences and memory
        that is coherent over the device.  [Metal Shading Language Specification: 3.2]"""
        return self.language >= (3, 2)

    def registers_among(self, threads: int) -> int:
        """How many registers of 32 bits each of a threadgroup's threads can have.

        >>> from iris.targets.apple import M1
        >>> M1.registers_among(256), M1.registers_among(1024)
        (128, 52)
        """
        room = [most // 2 for most, fitting in self.core.occupancy if fitting >= threads]
        return min(self.thread_registers, max(room, default=self.thread_registers))

    def with_cores(self, cores: int) -> Target:
        """The same with another number of cores, which the name then says.

        >>> Target("mine", cores=8, clock=1.28, bandwidth=68).with_cores(7).name
        'mine-7-cores'
        """
        if cores == self.cores:
            return self
        return replace(self, name=f"{self.name}-{cores}-cores", cores=cores)

    def __str__(self) -> str:
        return self.name
