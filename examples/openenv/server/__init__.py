"""The server of the game."""
