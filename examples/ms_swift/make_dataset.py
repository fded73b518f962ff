"""Write a dataset for ms-swift: one row per game and level.

    python make_dataset.py frozen_lake size=4 max_turns=16 >frozen_lake.jsonl
    python make_dataset.py mortar_mayhem_b_grid mystery_path_grid max_turns=80 >memory.jsonl
    python make_dataset.py sudoku 'clues=[60]' >sudoku.jsonl
    python make_dataset.py frozen_lake sudoku --rows 100 --held-out >test.jsonl

The message is a placeholder, which the environment replaces. Rollouts of a group share a row, and therefore a level.
"""

import argparse
import json

import jaxgym
from jaxgym import levels, text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "words",
        nargs="+",
        help="games by short name or id, and options NAME=VALUE for all of them; a value is JSON or a plain string",
    )
    parser.add_argument("--rows", type=int, default=64, help="number of rows (default: %(default)s)")
    parser.add_argument("--held-out", action="store_true", help="use held-out levels")
    arguments = parser.parse_args()
    games = [word for word in arguments.words if "=" not in word]
    options = jaxgym.parse_options(word for word in arguments.words if "=" in word)
    if not games or arguments.rows < 1:
        parser.error(f"expected a game and --rows of at least 1, got {' '.join(games) or 'no game'}, {arguments.rows}")
    for game in games:
        text.text_spec_of(game)
    seeds = levels.held_out_seeds if arguments.held_out else levels.train_seeds
    for number, seed in enumerate(
        seeds(-(-arguments.rows // len(games))).repeat(len(games)).tolist()[: arguments.rows]
    ):
        env_config = {"name": games[number % len(games)], "seed": seed, **options}
        print(json.dumps({"messages": [{"role": "user", "content": "Play."}], "env_config": env_config}))


if __name__ == "__main__":
    main()
