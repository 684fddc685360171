"""The array frontend: functions of arrays, traced into Graph IR by NumPy's own protocols."""

from iris.frontend.arrays import (  # noqa: F401 -- each registers what it has of NumPy
    array_products,
    array_reductions,
    counting,
    creation,
    einsum,
    joining,
    linalg,
    methods,
    padding,
    rearranging,
    scans,
    selection,
    series,
    special,
    ufuncs,
)
from iris.frontend.arrays.array_function import (
    ArrayCall,
    ArrayFunction,
    TensorSpec,
    TracedFunction,
    spec_of,
)
from iris.frontend.arrays.array_values import traced as as_traced_constant
from iris.frontend.arrays.trace import is_tracing
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.arrays.trees import Leaf, Tree, flatten
from iris.frontend.arrays.weak_scalars import WeakScalarCheck

methods.define()

__all__ = [
    "ArrayCall",
    "ArrayFunction",
    "Leaf",
    "TensorSpec",
    "TracedArray",
    "TracedFunction",
    "Tree",
    "WeakScalarCheck",
    "as_traced_constant",
    "flatten",
    "is_tracing",
    "spec_of",
]
