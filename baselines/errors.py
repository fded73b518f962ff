"""What a person can put right: each message is one sentence that says what was given and what to do."""


class ConfigError(ValueError):
    """A setting, or a combination of settings, that cannot be used."""


class RunError(RuntimeError):
    """A run that cannot start or go on; whatever checkpoint was complete is still on disk."""


EXTRA = "baselines"
"""The extra with every package that baselines import."""
