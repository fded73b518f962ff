"""GRPO of a small language model on text environments; start it by `python -m baselines.grpo`."""
