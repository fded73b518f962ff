"""Session pools on the actors of a Ray cluster."""

from jaxgym.serve.ray.pool import PartialCallError, RayPool, share

__all__ = ["PartialCallError", "RayPool", "share"]
