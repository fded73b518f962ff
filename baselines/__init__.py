"""Training loops, networks and memory cells that learn jaxgym's environments; `python -m baselines.train` starts one."""
