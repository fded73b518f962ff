"""Rendering: shapes and sprites made once in NumPy, drawn on uint8 canvases in JAX; independent of games."""
