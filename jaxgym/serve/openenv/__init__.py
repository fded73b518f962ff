"""OpenEnv: a server of one game, and clients of such servers, ours and others."""
