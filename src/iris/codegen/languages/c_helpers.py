"""Functions that the text of a kernel defines when it uses them, alike in every language.

{T} is the type of an element, {U} the unsigned integer of its width, {both} and {either} the bits
that x and y have both, or either of them; {exp} is the exponential, {fmod} what dividing and
rounding towards 0 leaves, and {inline} stands before a function.
"""

from __future__ import annotations

from iris.codegen.language import Helper

HELPERS = {
    "floor_divide": Helper(
        "floor_divide",
        2,
        """\
// The quotient, rounded down.
{inline} {T} floor_divide({T} x, {T} y) {{
    if (y == -1) return {T}(-{U}(x));  // x / y could overflow
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
    "fast_maximum": Helper(
        "maximum",
        2,
        """\
// The greater; nan if either is.
{inline} {T} maximum({T} x, {T} y) {{
    return x > y || x != x ? x : y;
}}
""",
    ),
    "fast_minimum": Helper(
        "minimum",
        2,
        """\
// The lesser; nan if either is.
{inline} {T} minimum({T} x, {T} y) {{
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
