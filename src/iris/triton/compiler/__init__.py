"""`triton.compiler`: the errors that packages catch."""

from iris.triton.compiler import errors
from iris.triton.compiler.errors import CompilationError

__all__ = ["CompilationError", "errors"]
