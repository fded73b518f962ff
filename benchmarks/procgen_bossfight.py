"""Measure the steps per second of BossFight in Procgen: random actions, one environment, one core.

Procgen runs in an environment of its own, with Python 3.11 or 3.12:

    pip install --no-deps procgen-mirror==0.10.7 gym3==0.3.3
    pip install 'numpy==1.26.*' 'cffi<2' filelock moderngl imageio 'glfw<2'
    taskset --cpu-list 0 python benchmarks/procgen_bossfight.py

`throughput.py --env BossFight-v0` measures jaxgym.
"""

import argparse
import sys
import time
import types

import numpy as np


def without_gym() -> None:
    """Replace gym, in which Procgen registers its ids, by modules that do nothing."""
    gym = types.ModuleType("gym")
    gym.Wrapper = gym.Env = object
    for name in ("gym.envs", "gym.envs.registration", "gym.spaces"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["gym"], sys.modules["gym.envs.registration"].register = gym, lambda **_: None
    gym.envs, gym.spaces = sys.modules["gym.envs"], sys.modules["gym.spaces"]
    gym.envs.registration = sys.modules["gym.envs.registration"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=5000, help="steps a run")
    parser.add_argument("--repeats", type=int, default=5, help="runs; the best counts")
    parser.add_argument("--num-envs", type=int, default=1, help="environments of one call")
    settings = parser.parse_args()
    without_gym()
    from procgen import ProcgenGym3Env

    env = ProcgenGym3Env(num=settings.num_envs, env_name="bossfight", num_threads=0, rand_seed=0)
    generator = np.random.RandomState(0)
    best = float("inf")
    for _ in range(settings.repeats):
        actions = generator.randint(0, 15, (settings.steps, settings.num_envs)).astype(np.int32)
        begun = time.perf_counter()
        for action in actions:
            env.act(action)
            env.observe()
        best = min(best, time.perf_counter() - begun)
    print(f"{settings.num_envs} environments: {settings.steps * settings.num_envs / best:,.0f} steps/s")


if __name__ == "__main__":
    main()
