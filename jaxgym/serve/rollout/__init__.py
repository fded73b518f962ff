"""Rollouts: chats of a policy with text environments, many at a time, saved to disk."""

from jaxgym.serve.rollout.endpoint import EndpointPolicy
from jaxgym.serve.rollout.policies import BatchPolicy, Choice, Message, Policy, PolicyError, Request
from jaxgym.serve.rollout.records import Folder
from jaxgym.serve.rollout.rewards import BUILT_IN, Blend
from jaxgym.serve.rollout.runs import Row, Summary, rollout, rows_of, summaries
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
