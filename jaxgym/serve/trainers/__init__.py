"""Adapters for trainers of language models."""
