"""Gymnasium interface of all environments: NumPy in and out, one environment or a vector environment.

Gymnasium knows each id with the prefix `jaxgym/`:

    import gymnasium
    import jaxgym

    env = gymnasium.make("jaxgym/MortarMayhem-v0", command_count=[5])
    envs = gymnasium.make_vec("jaxgym/MortarMayhem-v0", num_envs=64)
    env = gymnasium.make("jaxgym/MortarMayhem-v0", memory_gym_layout=True)  # the interface of memory-gym 1.0.2
    env = gymnasium.make("jaxgym/BabyAI-GoToLocal-v0", minigrid_layout=True)  # the interface of minigrid 3.2.0

Gymnasium imports this package when it makes the first environment.
"""
