"""Errors that a user can fix. The message has what was expected, what was given, and the fix."""


class ConfigError(ValueError):
    """An invalid setting, or an invalid combination of settings."""


class RunError(RuntimeError):
    """A run that cannot start or continue; complete checkpoints stay on disk."""


EXTRA = "baselines"
"""Name of the extra with every package that baselines imports."""
