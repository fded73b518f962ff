"""A server of several environments that speaks AgentGym."""
