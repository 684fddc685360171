"""The array frontend: functions of arrays, traced into Graph IR by NumPy's own protocols."""

from iris.frontend.arrays import (  # noqa: F401 -- each registers what it has of NumPy
    choosing,
    counting,
    creation,
    einsum,
    joining,
    linalg,
    methods,
    padding,
    products,
    rearranging,
    reductions,
    scans,
    series,
    special,
    ufuncs,
)
from iris.frontend.arrays.fitting import Narrowed
from iris.frontend.arrays.function import (
    ArrayFunction,
    Call,
    TensorSpec,
    TracedFunction,
    spec_of,
)
from iris.frontend.arrays.trace import is_tracing
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.arrays.trees import Leaf, Tree, flatten
from iris.frontend.arrays.values import traced as as_traced_constant

methods.define()

__all__ = [
    "ArrayFunction",
    "Call",
    "Leaf",
    "Narrowed",
    "TensorSpec",
    "TracedArray",
    "TracedFunction",
    "Tree",
    "as_traced_constant",
    "flatten",
    "is_tracing",
    "spec_of",
]
