"""The language of kernels that say what one thread does, traced to Metal IR."""
