"""Drawing: shapes and sprites made once in NumPy, stamped on uint8 canvases in JAX. Knows no game."""
