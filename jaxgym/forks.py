"""Detection of forked child processes, in which JAX hangs.

A fork does not copy the threads that JAX has started, so the first computation in the child waits forever.
"""

import os
import sys

from jaxgym.errors import ForkError

_owner: int | None = None
"""Id of the process in which JAX was running at the first fork."""


def _note_owner() -> None:
    global _owner
    bridge = sys.modules.get("jax._src.xla_bridge")
    if _owner is None and bridge is not None and bridge.backends_are_initialized():
        _owner = os.getpid()


if hasattr(os, "register_at_fork"):  # Windows has no fork.
    os.register_at_fork(before=_note_owner)


def check() -> None:
    """Check that JAX can compute in this process.

    Raises:
        ForkError: If the process was forked from one in which JAX was running.
    """
    if _owner is not None and _owner != os.getpid():
        raise ForkError(
            "expected a process that started JAX itself, got a forked child of one that runs JAX, where JAX hangs. "
            'Start workers with context="spawn", as in AsyncVectorEnv(env_fns, context="spawn").'
        )
