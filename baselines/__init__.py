"""Training loop, networks and memory cells for jaxgym's environments; start one by `python -m baselines.train`."""
