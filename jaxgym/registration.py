"""`make`, and the rows of the table of environment ids."""

import dataclasses
import reprlib
from functools import partial
from operator import attrgetter
from typing import Any

import gymnasium
import gymnax.registration as gymnax_registration
import jax
import numpy as np
from jax.core import Tracer

from jaxgym import forks, specs
from jaxgym import levels as level_banks
from jaxgym.environment import Environment, EnvParams
from jaxgym.envs.memory import (
    bank_fits,
    endless_mortar_mayhem,
    endless_mystery_path,
    endless_searing_spotlights,
    experts,
    ground_truth,
    mortar_mayhem,
    mystery_path,
    searing_spotlights,
    searing_spotlights_expert,
)
from jaxgym.envs.memory.presets import PRESETS as MEMORY_PRESETS
from jaxgym.envs.text_world import textcraft, textcraft_planner
from jaxgym.envs.toy_text import frozen_lake, frozen_lake_maps, sudoku, sudoku_levels
from jaxgym.errors import LevelError, OptionError
from jaxgym.ids import tell_gymnasium
from jaxgym.options import Preset, plain, resolve, with_preset
from jaxgym.originals import endless_mystery_path as endless_mystery_path_originals
from jaxgym.originals import mortar_mayhem as mortar_mayhem_originals
from jaxgym.originals import mystery_path as mystery_path_originals
from jaxgym.originals import searing_spotlights as searing_spotlights_originals
from jaxgym.specs import Human, Spec, presets, registered_envs, spec_of

AnyEnvironment = Environment[Any, Any, Any, Any]

__all__ = ["Human", "Preset", "Spec", "make", "presets", "register", "registered_envs", "spec_of", "unregister"]


def register(env_id: str, spec: Spec) -> None:
    """Adds an environment to `jaxgym.make`, to `gymnax.make`, and as `jaxgym/<id>` to `gymnasium.make`.

    Args:
        env_id: A new id, such as `"MyGame-v0"`, of letters, digits and `-`, `_` or `.`.
        spec: How it is made.

    Raises:
        ValueError: If the id is taken.
    """
    specs.add(env_id, spec)
    if env_id not in gymnax_registration.registered_envs:
        gymnax_registration.register(env_id, lambda **options: make(env_id, **options)[0])
    tell_gymnasium(env_id)


def unregister(env_id: str) -> None:
    """Remove an environment from `jaxgym.make`, `gymnax.make` and `gymnasium.make`.

    Args:
        env_id: An id of `register`. Remove its text interface first, with `jaxgym.text.unregister`.

    Raises:
        UnknownIdError: If the id is not registered.
    """
    specs.remove(env_id)
    gymnasium.registry.pop(f"jaxgym/{env_id}", None)
    if env_id in gymnax_registration.registered_envs:
        gymnax_registration.registered_envs.remove(env_id)
        # gymnax has no function for it.
        del gymnax_registration._registry[env_id]  # pyright: ignore[reportPrivateUsage]


def make(
    env_id: str, *, preset: str | None = None, levels: Any = None, max_steps: int | None = None, **options: Any
) -> tuple[AnyEnvironment, EnvParams]:
    """Makes an environment and its parameters.

    Args:
        env_id: One of `registered_envs()`.
        preset: A name of `presets(env_id)`, such as `"jmlr2025"`: its options are used where none are given beside it.
        levels: Where resets take levels from: `"fresh"` samples a new one each time; an integer n makes a bank of the
            first n training levels; a bank of `jaxgym.levels` is used as it is, and decides how much a level lists
            where the options do not. If None, they are fresh, but for Mystery Path, where sampling is slow, a bank of
            the first 100 000 training levels, made at first use.
        max_steps: Time limit in steps, after which an episode is truncated; 0 or less means none. The
            preset's if None, or else the environment's own.
        **options: Options of the environment under their own names, such as `command_count=[5]`.

    Returns:
        The environment, and its parameters: a pytree of traced values, which may be vmapped.

    Raises:
        UnknownIdError: If the id is not registered.
        OptionError: If an option or the preset does not exist, or an option does not take the given value.
        LevelError: If `levels` is none of the above, or a bank with other arrays than the levels of this environment
            have, or with values that these options never make, such as a tile outside of the arena or a count that is
            not among the choices. How often values occur is not checked, nor are the values of a bank that is traced
            or that `dataclasses.replace(params, levels=bank)` puts into parameters: that they are of the same options
            is the caller's part.
        ForkError: In a forked child of a process that runs JAX.
    """
    forks.check()
    spec = spec_of(env_id)
    given = {**options, **({} if max_steps is None else {"max_steps": max_steps})}
    given = {**spec.sizes_of(levels), **with_preset(env_id, spec.presets, preset, given)}
    values = resolve(env_id, spec.all_options, given)
    limit = values.pop("max_steps")
    env, params = spec.build(env_id, values)
    params = dataclasses.replace(params, max_steps_in_episode=limit)
    params = dataclasses.replace(params, levels=_bank(spec, env, params, levels))
    return dataclasses.replace(env, initial_params=params), params


def _bank(spec: Spec, env: AnyEnvironment, params: EnvParams, levels: Any) -> Any:
    if levels is None:
        return spec.default_bank(params) if spec.default_bank else None
    levels = plain(levels)
    if isinstance(levels, str | bool | float):
        if levels != "fresh":
            raise OptionError(
                f"{env.env_id} was given levels={levels!r}; give 'fresh', a number of training levels, or a bank."
            )
        return None
    if isinstance(levels, int):
        if not 1 <= levels <= level_banks.SPLIT_SIZE:
            raise LevelError(
                f"{env.env_id} was given levels={levels}; give a number of training levels from 1 to 2^31, "
                "'fresh', or a bank."
            )
        return level_banks.make_bank(env, params, level_banks.train_seeds(levels))
    level_banks.check_bank(env, levels, params)
    _check_values(spec, env, params, levels)
    return levels


def _check_values(spec: Spec, env: AnyEnvironment, params: EnvParams, bank: Any) -> None:
    """Refuses a bank of other options; one that is traced has no values to check."""
    if spec.fits is None or any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(bank)):
        return
    bank = jax.tree.map(np.asarray, bank)
    for field, is_fit in spec.fits(env, bank, params).items():
        if not is_fit.all():
            row = int(np.argmin(is_fit))
            value = attrgetter(field)(bank)[row].tolist()
            raise LevelError(
                f"{env.env_id} was given a bank whose level {row} has {field}={reprlib.repr(value)}, which these "
                "options do not make; make the bank with the same id and options."
            )


for _env_id, _variant in {
    "MortarMayhem-v0": {"grid": False, "act_only": False},
    "MortarMayhem-Grid-v0": {"grid": True, "act_only": False},
    "MortarMayhemB-v0": {"grid": False, "act_only": True},
    "MortarMayhemB-Grid-v0": {"grid": True, "act_only": True},
}.items():
    register(
        _env_id,
        Spec(
            partial(mortar_mayhem.build, **_variant),
            mortar_mayhem.options(**_variant),
            fits=bank_fits.mortar_mayhem_fits,
            original=mortar_mayhem_originals.ORIGINAL,
            presets=MEMORY_PRESETS[_env_id],
            expert=experts.mortar_mayhem_action,
            human=Human(
                ground_truth.mortar_mayhem_view, "grid" if _variant["grid"] else "free", mortar_mayhem.is_clue_phase
            ),
        ),
    )

register(
    "Endless-MortarMayhem-v0",
    Spec(
        endless_mortar_mayhem.build,
        endless_mortar_mayhem.OPTIONS,
        sizes_of=mortar_mayhem_originals.endless_sizes_of,
        fits=bank_fits.endless_mortar_mayhem_fits,
        original=mortar_mayhem_originals.ENDLESS_ORIGINAL,
        presets=MEMORY_PRESETS["Endless-MortarMayhem-v0"],
        expert=experts.endless_mortar_mayhem_action,
        human=Human(ground_truth.endless_mortar_mayhem_view, "free", endless_mortar_mayhem.is_clue_seen),
    ),
)
register(
    "SearingSpotlights-v0",
    Spec(
        searing_spotlights.build,
        searing_spotlights.options(),
        max_steps=256,
        sizes_of=searing_spotlights_originals.sizes_of,
        fits=bank_fits.searing_spotlights_fits,
        original=searing_spotlights_originals.ORIGINAL,
        presets=MEMORY_PRESETS["SearingSpotlights-v0"],
        expert=searing_spotlights_expert.searing_spotlights_action,
        human=Human(ground_truth.searing_spotlights_view, "free"),
    ),
)
register(
    "Endless-SearingSpotlights-v0",
    Spec(
        endless_searing_spotlights.build,
        endless_searing_spotlights.options(),
        sizes_of=searing_spotlights_originals.sizes_of,
        fits=bank_fits.endless_searing_spotlights_fits,
        original=searing_spotlights_originals.ENDLESS_ORIGINAL,
        presets=MEMORY_PRESETS["Endless-SearingSpotlights-v0"],
        expert=searing_spotlights_expert.endless_searing_spotlights_action,
        human=Human(ground_truth.searing_spotlights_view, "free"),
    ),
)
for _env_id, _grid, _max_steps in (("MysteryPath-v0", False, 512), ("MysteryPath-Grid-v0", True, 128)):
    register(
        _env_id,
        Spec(
            partial(mystery_path.build, grid=_grid),
            mystery_path.options(grid=_grid),
            max_steps=_max_steps,
            default_bank=mystery_path.default_bank,
            fits=bank_fits.mystery_path_fits,
            original=mystery_path_originals.ORIGINAL,
            presets=MEMORY_PRESETS[_env_id],
            expert=experts.mystery_path_action,
            human=Human(ground_truth.mystery_path_view, "grid" if _grid else "free"),
        ),
    )

register(
    "Endless-MysteryPath-v0",
    Spec(
        endless_mystery_path.build,
        endless_mystery_path.OPTIONS,
        sizes_of=endless_mystery_path_originals.sizes_of,
        fits=bank_fits.endless_mystery_path_fits,
        original=endless_mystery_path_originals.ORIGINAL,
        presets=MEMORY_PRESETS["Endless-MysteryPath-v0"],
        expert=experts.endless_mystery_path_action,
        human=Human(ground_truth.endless_mystery_path_view, "course"),
    ),
)
register(
    "FrozenLake-v0",
    Spec(
        frozen_lake.build,
        frozen_lake.OPTIONS,
        max_steps=frozen_lake.MAX_STEPS,
        sizes_of=frozen_lake.sizes_of,
        fits=frozen_lake_maps.fits,
        expert=frozen_lake.expert_action,
        human=Human(frozen_lake.view, "steps"),
    ),
)
register(
    "Sudoku-v0",
    Spec(
        sudoku.build,
        sudoku.OPTIONS,
        max_steps=sudoku.MAX_STEPS,
        fits=sudoku_levels.fits,
        presets=sudoku.PRESETS,
        expert=sudoku.expert_action,
        human=Human(sudoku.ground_truth_view, "words"),
    ),
)
register(
    "TextCraft-v0",
    Spec(
        textcraft.build,
        textcraft.OPTIONS,
        fits=textcraft.bank_fits,
        expert=textcraft_planner.textcraft_action,
        human=Human(textcraft.view, "words"),
    ),
)
