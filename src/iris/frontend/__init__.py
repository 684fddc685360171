"""The frontend: Python functions in, IR out.  It only traces."""
