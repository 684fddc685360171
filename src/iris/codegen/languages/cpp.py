"""What the languages, all of them C++, have alike: integer literals, keywords, and the functions
that a text defines when it uses them.

In the functions, {T} is the type of an element, {U} the unsigned integer of its width, {both} and
{either} the bits that x and y have both, or either of them; {narrowing} makes an element of a wider
integer, {exp} is the exponential, {fmod} what dividing and rounding towards 0 leaves, and {inline}
stands before a function.
"""

from __future__ import annotations

from collections.abc import Mapping

from iris.codegen.language import Helper
from iris.codegen.tree import Number
from iris.ir import literal
from iris.ir.types import DType, bool_, i32

KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t
class compl const const_cast constexpr continue decltype default delete do double dynamic_cast
else enum explicit export extern false float for friend goto if inline int long mutable namespace
new noexcept not not_eq nullptr operator or or_eq private protected public register
reinterpret_cast return short signed sizeof static static_assert static_cast struct switch
template this thread_local throw true try typedef typeid typename union unsigned using virtual
void volatile wchar_t while xor xor_eq override final import module main
"""


def integer_literal(bits: int, dtype: DType, suffixes: Mapping[DType, str]) -> tuple[Number, DType]:
    """The number of an integer or a bool, and the type that it has there."""
    value = int(literal.decode(bits, dtype))
    if dtype is bool_:
        return Number("true" if value else "false", value), dtype
    suffix = suffixes.get(dtype, "")
    if dtype.bits >= 32 and dtype.is_signed and value == dtype.low:
        # A literal has no sign, and its magnitude fits no signed type.
        return Number(f"(-{dtype.high}{suffix} - 1)", value), dtype
    # There are none shorter than int.
    return Number(f"{value}{suffix}", value), dtype if dtype.bits >= 32 else i32


HELPERS = {
    "floor_divide": Helper(
        "floor_divide",
        2,
        """\
// The quotient, rounded down.
{inline} {T} floor_divide({T} x, {T} y) {{
    if (y == -1) return {narrowing}(-{U}(x));  // x / y could overflow
    {T} q = x / y;
    return q * y != x && (x < 0) != (y < 0) ? q - 1 : q;
}}
""",
    ),
    "floor_modulo": Helper(
        "floor_modulo",
        2,
        """\
// What dividing and rounding down leaves; it has the sign of y.
{inline} {T} floor_modulo({T} x, {T} y) {{
    if (y == -1) return 0;  // x % y could overflow
    {T} r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}}
""",
    ),
    "float_floor_divide": Helper(
        "floor_divide",
        2,
        """\
// The quotient, rounded down.
{inline} float floor_divide(float x, float y) {{
    float q = floor(x / y);
    float r = isinf(y) ? x : fma(-q, y, x);  // has not the sign of y if x / y was rounded up
    if (isinf(x) && y != 0.0f) return NAN;
    float s = fma(-q - 1.0f, y, x);  // has the sign of y if x / y was less than it is
    if (abs(q) < 0x1p23f && (s == 0.0f || (s < 0.0f) == (y < 0.0f))) return q + 1.0f;
    return r != 0.0f && (r < 0.0f) != (y < 0.0f) ? q - 1.0f : q;
}}
""",
    ),
    "float_floor_modulo": Helper(
        "floor_modulo",
        2,
        """\
// What dividing and rounding down leaves; it has the sign of y.
{inline} float floor_modulo(float x, float y) {{
    float r = {fmod}(x, y);
    if (r == 0.0f) return copysign(0.0f, y);
    return (r < 0.0f) != (y < 0.0f) ? r + y : r;
}}
""",
    ),
    "maxnum": Helper(
        "maxnum",
        2,
        """\
// The greater; of a number and a nan, the number.  -0 is less than +0.
{inline} {T} maxnum({T} x, {T} y) {{
    if (x == y) return as_type<{T}>({both});
    return x > y || y != y ? x : y;
}}
""",
    ),
    "minnum": Helper(
        "minnum",
        2,
        """\
// The lesser; of a number and a nan, the number.  -0 is less than +0.
{inline} {T} minnum({T} x, {T} y) {{
    if (x == y) return as_type<{T}>({either});
    return x < y || y != y ? x : y;
}}
""",
    ),
    "maximum": Helper(
        "maximum",
        2,
        """\
// The greater; nan if either is.  -0 is less than +0.
{inline} {T} maximum({T} x, {T} y) {{
    if (x == y) return as_type<{T}>({both});
    return x > y || x != x ? x : y;
}}
""",
    ),
    "minimum": Helper(
        "minimum",
        2,
        """\
// The lesser; nan if either is.  -0 is less than +0.
{inline} {T} minimum({T} x, {T} y) {{
    if (x == y) return as_type<{T}>({either});
    return x < y || x != x ? x : y;
}}
""",
    ),
    "maximum_nsz": Helper(
        "maximum_nsz",
        2,
        """\
// The greater; nan if either is.  Of -0 and +0 it may be either.
{inline} {T} maximum_nsz({T} x, {T} y) {{
    return x > y || x != x ? x : y;
}}
""",
    ),
    "minimum_nsz": Helper(
        "minimum_nsz",
        2,
        """\
// The lesser; nan if either is.  Of -0 and +0 it may be either.
{inline} {T} minimum_nsz({T} x, {T} y) {{
    return x < y || x != x ? x : y;
}}
""",
    ),
    "fma_bfloat": Helper(
        "fma_bfloat",
        3,
        """\
// x * y + z, rounded once.  The product has the bits of a float; a sum that has not is rounded to
// odd there, so that rounding it once more is right.
{inline} bfloat fma_bfloat(bfloat x, bfloat y, bfloat z) {{
    float a = float(x), b = float(y), product = a * b, addend = float(z), scale = 1.0f;
    if (isinf(product) && !isinf(a) && !isinf(b)) {{  // the sum may fit: all is made smaller before
        scale = 18446744073709551616.0f;
        product = (a / scale) * (b / scale);
        addend = addend / scale / scale;
    }}
    float sum = product + addend;
    float back = sum - product;
    float lost = (product - (sum - back)) + (addend - back);
    int bits = as_type<int>(sum);
    bool inexact = lost != 0.0f && !isinf(sum) && (bits & 1) == 0;
    if (inexact) bits += (lost < 0.0f) != (sum < 0.0f) ? -1 : 1;
    return bfloat(as_type<float>(bits) * scale * scale);
}}
""",
    ),
    "erf": Helper(
        "error_function",
        1,
        """\
// The error function, within 1 ulp plus what `exp` adds.
{inline} float error_function(float x) {{
    float t = abs(x), s = x * x;
    if (t <= 0.927734375f) {{
        float r = fma(-5.96761703e-4f, s, 4.99119423e-3f);
        r = fma(r, s, -2.67681349e-2f);
        r = fma(r, s, 1.12819925e-1f);
        r = fma(r, s, -3.76125336e-1f);
        r = fma(r, s, 1.28379166e-1f);
        return fma(r, x, x);
    }}
    float r = fma(-1.72853470e-5f, t, 3.83197126e-4f);
    r = fma(r, s, fma(-3.88396438e-3f, t, 2.42546219e-2f));
    r = fma(r, t, -1.06777877e-1f);
    r = fma(r, t, -6.34846687e-1f);
    r = fma(r, t, -1.28717512e-1f);
    r = 1.0f - {exp}(fma(r, t, -t));
    return copysign(r, x);
}}
""",
    ),
}
