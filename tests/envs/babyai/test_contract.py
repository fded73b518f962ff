"""One id of each family of BabyAI satisfies the contract of environments."""

import pytest

from jaxgym import testing
from jaxgym.envs.babyai import SPECS

FAMILIES = ("GoToLocalS5N2-v0", "OpenRedDoor-v0", "PickupDist-v0", "PutNextS5N2Carrying-v0", "MiniBossLevel-v0")


@pytest.mark.slow
@pytest.mark.parametrize("observation", ["symbolic", "pixels"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_keeps_the_contract(name: str, observation: str) -> None:
    spec, env_id = SPECS[f"BabyAI-{name}"], f"BabyAI-{name}"
    values = {key: option.default for key, option in spec.all_options.items()}
    testing.check_env(*spec.build(env_id, values | {"observation": observation}))
