"""Server of the game."""
