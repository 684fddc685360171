"""`triton.compiler.errors`: an error in a kernel's text is one of its user's."""

from iris.errors import UserError as CompilationError

__all__ = ["CompilationError"]
