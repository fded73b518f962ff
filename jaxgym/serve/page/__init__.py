"""Web page at `/` of a server, to watch and play sessions."""
