"""Environments, one folder per game; `memory_gym` has the shared parts of its family."""
