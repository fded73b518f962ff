"""AgentGym server of several environments."""
