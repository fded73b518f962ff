"""Sessions of text games, and the protocols and trainers that use them.

pool       sessions of games, stepped together, with the types, options and errors of its calls
episodes   episodes on a pool of this process, for `swift`, `trl` and `textarena`
rollout    whole chats of a policy, kept on disk: `jaxgym rollout`
web        the parts that all servers share; `command` is `jaxgym serve`
page       the page that a browser gets at `/`
openenv    a server of one game that speaks OpenEnv and MCP, and a client for ms-swift
agentgym   a server of several games that speaks AgentGym
"""
