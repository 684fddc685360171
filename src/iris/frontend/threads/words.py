"""What makes a function a word of kernels by thread."""

from __future__ import annotations

from functools import partial

from iris.frontend import tracing

word = partial(tracing.word, library="metal")
