"""The command `python -m baselines.grpo`."""

from baselines.grpo.train import main

main()
