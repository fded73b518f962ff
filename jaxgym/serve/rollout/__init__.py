"""Rollouts: chats of a policy with text environments, many at a time, saved to disk."""

from jaxgym.serve.rollout.policies import BatchPolicy, Choice, EndpointPolicy, Message, Policy, PolicyError, Request
from jaxgym.serve.rollout.runs import BUILT_IN, Blend, Folder, Row, Summary, rollout, rows_of, summaries
from jaxgym.serve.rollout.scheduler import RolloutSettings, Scheduler
from jaxgym.serve.rollout.scripted import ScriptedPolicy

__all__ = [
    "BUILT_IN",
    "BatchPolicy",
    "Blend",
    "Choice",
    "EndpointPolicy",
    "Folder",
    "Message",
    "Policy",
    "PolicyError",
    "Request",
    "RolloutSettings",
    "Row",
    "Scheduler",
    "ScriptedPolicy",
    "Summary",
    "rollout",
    "rows_of",
    "summaries",
]
