"""What each language for kernels looks like: a table a module."""
