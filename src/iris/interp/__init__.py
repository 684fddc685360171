"""The reference interpreters: what the programs of each level mean."""
