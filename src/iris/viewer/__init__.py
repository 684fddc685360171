"""A page that shows how a kernel was compiled: its IR after each pass, and what became of it."""
