"""Shared parts of the Memory Gym games: arena, agent, steering, text, and levels of the original's seeds."""
