"""How graphs become kernels: what one demands, how that is cut up, what it costs, its program."""
