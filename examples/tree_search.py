"""Search with copies of sessions: `python examples/tree_search.py` compares a policy with a search around it.

At each turn, the search copies the session for every reply that the policy proposes, makes the reply in the copies,
lets the policy play on for some turns, and takes the reply with the largest mean return. The copies have chance events
of their own (`reseed=True`), so the search plans against slippery ice, and does not foresee how the ice will slip.

The policies are scripted and read the text only. The one of Frozen Lake takes the shortest way and ignores slips. The
one of Sudoku tries a random digit that its row, column and box allow. Most of the time is compilation.
"""

import argparse
import functools
import itertools
import random
import re
from collections import deque
from collections.abc import Callable, Sequence

from jaxgym.levels import held_out_seeds
from jaxgym.serve.pool import SessionPool

MOVES = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}

Policy = Callable[[str], list[str]]
"""Function from an observation text to the replies to consider; the first one is the choice of the policy."""


@functools.cache
def lake_replies(lake: str) -> list[str]:
    """Return the four moves; the first one leads to the goal on the shortest way over safe cells."""
    rows = [line.split() for line in lake.splitlines()]
    cells = {(row, column): kind for row, line in enumerate(rows) for column, kind in enumerate(line)}
    player, goal = (next(cell for cell, kind in cells.items() if kind == wanted) for wanted in "PG")
    distance, queue = {goal: 0}, deque([goal])
    while queue:
        row, column = queue.popleft()
        for down, right in MOVES.values():
            before = row + down, column + right
            if cells.get(before, "H") != "H" and before not in distance:
                distance[before] = distance[row, column] + 1
                queue.append(before)

    def cost(move: str) -> int:
        down, right = MOVES[move]
        return distance.get((player[0] + down, player[1] + right), len(cells))

    return [f"<action>{move}</action>" for move in sorted(MOVES, key=cost)]


def lake_policy(text: str) -> list[str]:
    return lake_replies("\n".join(re.findall(r"^[SFHGP](?: [SFHGP])+$", text, re.MULTILINE)))


def make_sudoku_policy(generator: random.Random) -> Policy:
    """Return a policy that fills a random cell; the replies are its possible digits in random order."""

    def policy(text: str) -> list[str]:
        rows = re.findall(r"^R[1-9] (.*)$", text, re.MULTILINE)
        board = [[int(cell) for cell in re.findall(r"[0-9]", row.replace(".", "0"))] for row in rows]
        empty = [(row, column) for row in range(9) for column in range(9) if board[row][column] == 0]
        row, column = generator.choice(empty)
        digits = sorted(set(range(1, 10)) - seen(board, row, column))
        return [f"[{row + 1} {column + 1} {digit}]" for digit in generator.sample(digits, k=len(digits))]

    return policy


def seen(board: list[list[int]], row: int, column: int) -> set[int]:
    top, left = row // 3 * 3, column // 3 * 3
    box = {board[top + down][left + right] for down in range(3) for right in range(3)}
    return {*board[row], *(line[column] for line in board), *box}


class Search:
    """Search around a policy.

    Attributes:
        pool: The pool of the sessions.
        policy: The policy, which proposes the replies and plays in the copies.
        copies: Number of copies for each proposed reply.
        depth: Number of turns that the policy plays in a copy.
    """

    def __init__(self, pool: SessionPool, policy: Policy, copies: int, depth: int):
        self.pool, self.policy, self.copies, self.depth = pool, policy, copies, depth
        self.seeds = itertools.count()

    def __call__(self, ids: Sequence[str], texts: Sequence[str]) -> list[str]:
        """Return the best reply for each of several sessions; all their copies are stepped together."""
        proposed = [self.policy(text) for text in texts]
        branches, replies = list[str](), list[str]()
        for session_id, options in zip(ids, proposed, strict=True):
            count = len(options) * self.copies if len(options) > 1 else 0
            if count:
                branches += self.pool.fork(session_id, count, reseed=True, seed=next(self.seeds))
                replies += [option for option in options for _ in range(self.copies)]
        returns = iter(self.returns(branches, replies))
        best = list[str]()
        for options in proposed:
            means = [sum(itertools.islice(returns, self.copies)) for _ in options] if len(options) > 1 else [0.0]
            best.append(options[means.index(max(means))])
        return best

    def returns(self, branches: Sequence[str], replies: list[str]) -> list[float]:
        """Return the sum of the rewards of each copy, and close the copies."""
        totals = dict.fromkeys(branches, 0.0)
        playing = list(branches)
        for _ in range(1 + self.depth):
            results = self.pool.step(playing, replies) if playing else []
            for session_id, result in zip(playing, results, strict=True):
                totals[session_id] += result.reward
            going_on = [
                (session_id, result.text)
                for session_id, result in zip(playing, results, strict=True)
                if not (result.terminated or result.truncated)
            ]
            playing, replies = [name for name, _ in going_on], [self.policy(text)[0] for _, text in going_on]
        self.pool.close(branches)
        return list(totals.values())


def play(pool: SessionPool, ids: Sequence[str], texts: Sequence[str], choose: Callable[..., list[str]]) -> list[float]:
    """Play sessions to the end, and return their returns; `choose` maps open sessions and their texts to replies."""
    returns, playing = dict.fromkeys(ids, 0.0), dict(zip(ids, texts, strict=True))
    while playing:
        results = pool.step(list(playing), choose(list(playing), list(playing.values())))
        for session_id, result in zip(list(playing), results, strict=True):
            returns[session_id] = result.total_reward
            playing[session_id] = result.text
            if result.terminated or result.truncated:
                del playing[session_id]
    pool.close(ids)
    return list(returns.values())


def compare(
    name: str, options: dict, policy: Policy, levels: int, capacity: int, copies: int, depth: int
) -> tuple[float, float]:
    """Return the mean return of the policy and of the search on the same held-out levels."""
    pool = SessionPool(capacity)
    means = []
    for choose in (lambda _, texts: [policy(text)[0] for text in texts], Search(pool, policy, copies, depth)):
        openings = pool.open_many(name, held_out_seeds(levels).tolist(), options)
        returns = play(pool, [opening.id for opening in openings], [opening.text for opening in openings], choose)
        means.append(sum(returns) / len(returns))
    return means[0], means[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--levels", type=int, default=15, help="number of held-out levels of each game")
    parser.add_argument("--copies", type=int, default=32, help="copies for each reply on the lake")
    settings = parser.parse_args()
    levels, copies = settings.levels, settings.copies
    lake = {"is_slippery": True, "max_turns": 60}
    results = {
        "frozen_lake": compare("frozen_lake", lake, lake_policy, levels, levels * (1 + 4 * copies), copies, depth=20),
        "sudoku": compare(
            "sudoku", {"clues": [40]}, make_sudoku_policy(random.Random(0)), levels, levels * 10, copies=1, depth=0
        ),
    }
    for name, (alone, searched) in results.items():
        print(f"{name}: mean return {alone:.2f} with the policy, {searched:.2f} with the search")


if __name__ == "__main__":
    main()
