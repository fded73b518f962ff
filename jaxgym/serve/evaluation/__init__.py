"""Evaluation of agents on fixed held-out levels of rising difficulty, with the memory span."""

from jaxgym.serve.evaluation.agents import Agent, EpisodeAgents
from jaxgym.serve.evaluation.context import ContextGuard, estimated_tokens, tokenizer_tokens
from jaxgym.serve.evaluation.recall import Recall
from jaxgym.serve.evaluation.report import area, card_of, draw, markdown_of, memory_span, wilson
from jaxgym.serve.evaluation.run import IMAGE_TOKENS, EvaluationScheduler, EvaluationSettings, evaluate
from jaxgym.serve.evaluation.suite import SUITE_VERSION, TASKS, Difficulty, SuiteTask, rows_for

__all__ = [
    "IMAGE_TOKENS",
    "SUITE_VERSION",
    "TASKS",
    "Agent",
    "ContextGuard",
    "Difficulty",
    "EpisodeAgents",
    "EvaluationScheduler",
    "EvaluationSettings",
    "Recall",
    "SuiteTask",
    "area",
    "card_of",
    "draw",
    "estimated_tokens",
    "evaluate",
    "markdown_of",
    "memory_span",
    "rows_for",
    "tokenizer_tokens",
    "wilson",
]
