"""Text worlds: games that are told in words as easily as they are drawn."""
