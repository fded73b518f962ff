"""Plugin for ms-swift with the text interfaces of all games; pass this file to `--external_plugins`.

--gym_env frozen_lake                                       # or another short name or id, or env_config.name of a row
--multi_turn_scheduler gym_scheduler                        # ms-swift's own, for all games
--multi_turn_scheduler jaxgym_image_scheduler               # ours, for all games with images
--multi_turn_scheduler jaxgym_sudoku_scheduler              # ours, for Sudoku with hints and reward components
--multi_turn_scheduler jaxgym_openenv_scheduler             # ours, for all games on an OpenEnv server
"""

from jaxgym.serve import swift
from jaxgym.serve.openenv import client
from jaxgym.serve.swift import images, sudoku

swift.register()
images.register()
sudoku.register()
client.register()
