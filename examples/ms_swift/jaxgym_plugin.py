"""Every game of jaxgym in words for ms-swift: give this file to `--external_plugins`.

--gym_env frozen_lake                                       # or another short name or id, or env_config.name of a row
--multi_turn_scheduler gym_scheduler                        # ms-swift's own, for all games
--multi_turn_scheduler jaxgym_sudoku_scheduler              # ours, for Sudoku with hints and a score in five parts
--multi_turn_scheduler jaxgym_openenv_scheduler             # ours, for all games on a server of OpenEnv
"""

from jaxgym.serve import swift
from jaxgym.serve.openenv import client
from jaxgym.serve.swift import sudoku

swift.register()
sudoku.register()
client.register()
