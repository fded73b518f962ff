"""GRPO of a small language model on environments in words; start it by `python -m baselines.grpo`."""
