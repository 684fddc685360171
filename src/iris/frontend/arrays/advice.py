"""What to say of functions of NumPy that traced arrays do not have."""

from __future__ import annotations


def advice(name: str) -> str:
    """Why a function, such as `np.sort`, does not work, and what does."""
    for names, text in _ADVICE:
        if name.removeprefix("np.") in names:
            return text
    return "is not supported for traced arrays"


_ADVICE: list[tuple[tuple[str, ...], str]] = [
    (
        (
            "nonzero",
            "argwhere",
            "flatnonzero",
            "unique",
            "unique_values",
            "unique_counts",
            "unique_inverse",
            "unique_all",
            "extract",
            "compress",
            "trim_zeros",
            "union1d",
            "intersect1d",
            "setdiff1d",
            "setxor1d",
        ),
        "gives an array whose shape depends on the data, and shapes are known while tracing; "
        "keep all elements, and choose among them with np.where(condition, x, other)",
    ),
    (
        (
            "copyto",
            "put",
            "place",
            "putmask",
            "put_along_axis",
            "fill_diagonal",
        ),
        "changes an array, and no array changes while a function is traced; make another one, as "
        "with np.where, x.at[index].set(values), or np.broadcast_to(x, shape) for np.full",
    ),
    (
        (
            "sort",
            "argsort",
            "lexsort",
            "partition",
            "argpartition",
            "median",
            "nanmedian",
            "percentile",
            "nanpercentile",
            "quantile",
            "nanquantile",
        ),
        "needs an order of the elements, and traced arrays cannot be sorted; do it outside of the "
        "function, with NumPy",
    ),
    (
        ("allclose", "array_equiv"),
        "gives a Python bool, which is not known while tracing; np.isclose(a, b).all() and "
        "np.array_equal(a, b) give traced ones",
    ),
    (
        ("add.at",),
        "changes an array, and no array changes while a function is traced; write "
        "x.at[index].add(values)",
    ),
    (
        ("subtract.at",),
        "changes an array, and no array changes while a function is traced; write "
        "x.at[index].add(-values)",
    ),
    (
        ("multiply.at", "divide.at", "maximum.at", "minimum.at"),
        "changes an array, and no array changes while a function is traced; where no index "
        "repeats, x.at[index].set(...) of what the function makes of x[index] and values does it",
    ),
    (
        ("bincount",),
        "gives as many elements as the greatest number says, minlength= or not, and shapes are "
        "known while tracing; numbers below n are counted by np.zeros(n, np.int32, "
        "like=x).at[x].add(1)",
    ),
    (
        ("searchsorted",),
        "is not supported for traced arrays; (edges < x[..., None]).sum(-1) counts the edges "
        "below each element, and <= those of side='right'",
    ),
    (
        ("digitize",),
        "is not supported for traced arrays; (edges <= x[..., None]).sum(-1) counts the edges "
        "up to each element, and < those of right=True",
    ),
    (
        ("interp", "piecewise"),
        "is not supported for traced arrays; choose with np.where or np.select",
    ),
    (
        ("array2string", "array_str", "array_repr", "save", "savez", "savetxt"),
        "needs the elements, which are not known while tracing; return the array from the function",
    ),
    (
        ("vectorize", "apply_along_axis", "apply_over_axes"),
        "calls Python for elements; write the function for whole arrays",
    ),
]
