"""Resources server of NeMo Gym for every text environment: see `jaxgym.serve.trainers.nemo`."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # before the first import of JAX; the GPU is for the model

from jaxgym.serve.trainers.nemo import NemoServer

if __name__ == "__main__":
    NemoServer.run_webserver()
