"""Small grid and number puzzles, which are also played in words."""
