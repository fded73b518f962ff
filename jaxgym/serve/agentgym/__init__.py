"""AgentGym: a server of several environments, and its client side without any of its packages."""
