"""Sessions of text environments, and the protocols and trainers that use them.

pool       session pool, with the types, options and errors of its calls
episodes   episodes on the shared pool of the process, for `swift`, `trl`, `textarena` and `trainers`
trainers   adapters for trainers of language models, and their data rows: `jaxgym dataset`
rollout    chats of a policy, saved to disk: `jaxgym rollout`
web        shared parts of the servers; `command` is `jaxgym serve`
page       the web page at `/`
openenv    OpenEnv and MCP server of one environment, and a client for ms-swift
agentgym   AgentGym server of several environments
"""
