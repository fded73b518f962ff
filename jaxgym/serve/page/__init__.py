"""The page at `/` of a server: sessions to watch, and one to play."""
