"""`triton.runtime.cache`, which is Triton's own: Iris keeps what it compiles by itself."""


class FileCacheManager:
    """A name that packages derive from."""
