"""The command `python -m baselines.grpo`."""

from baselines.grpo.command import main

main()
