"""Every environment for Gymnasium: NumPy in and out, one episode at a time or many side by side.

`jaxgym.register` tells Gymnasium of each id, with `jaxgym/` before it:

    import gymnasium
    import jaxgym

    env = gymnasium.make("jaxgym/MortarMayhem-v0", command_count=[5])
    envs = gymnasium.make_vec("jaxgym/MortarMayhem-v0", num_envs=64)
    env = gymnasium.make("jaxgym/MortarMayhem-v0", memory_gym_layout=True)  # stands in for memory-gym's

Nothing in this package is imported before the first of them is made.
"""
