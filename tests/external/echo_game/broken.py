"""Module that can't be imported, like a package whose own dependency is missing."""

raise ImportError("the engine of this game is not installed")
