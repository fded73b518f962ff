"""Shared parts of the MiniGrid environments: things and actions, the agent's view, frames, and texts."""
