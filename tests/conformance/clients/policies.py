"""Scripted players that read the texts of a game as a model would: functions of the messages and the turn.

The last message of the user is the observation. They parse the formats of the frameworks' own games, so that they also
check that our texts keep these formats.
"""

import re
from collections import deque
from collections.abc import Callable
from typing import Any

Messages = list[dict[str, Any]]
Policy = Callable[[Messages, int], str]

LAKE_ROW = re.compile(r"\s*[SGFHP*](\s[SGFHP*])*\s*")
STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
TAGS = ("planks", "wool")  # ingredients of recipes that any item of that kind satisfies


def constant(reply: str) -> Callable[[], Policy]:
    """Return a factory of policies that always give one reply."""
    return lambda: lambda _messages, _turn: reply


def observations(messages: Messages) -> list[str]:
    """Return the user's messages, the newest first."""
    return [message["content"] for message in reversed(messages) if message["role"] == "user"]


def frozen_lake(messages: Messages, _turn: int) -> str:
    """Take the first step of a shortest path on the newest grid of S, G, F, H and P."""
    grids = (
        [line.split() for line in text.splitlines() if LAKE_ROW.fullmatch(line)] for text in observations(messages)
    )
    grid = next(filter(None, grids), [])
    cells = {(row, column): cell for row, line in enumerate(grid) for column, cell in enumerate(line)}
    start = next((place for place, cell in cells.items() if cell == "P"), None)
    queue, first = deque([start]), {start: "up"}
    while queue and start is not None:
        place = queue.popleft()
        if cells[place] == "G":
            return f"I see a path. <action>{first[place]}</action>"
        for name, (down, right) in STEPS.items():
            following = (place[0] + down, place[1] + right)
            if cells.get(following, "H") != "H" and following not in first:
                first[following] = name if place == start else first[place]
                queue.append(following)
    return "<action>up</action>"


def read_sudoku(text: str) -> list[list[int]] | None:
    """Return the last board of rows R1 to R9 in a text."""
    rows = [found[1] for line in text.splitlines() if (found := re.match(r"\s*R[1-9](.*)", line))]
    grid = [[int(cell) if cell.isdigit() else 0 for cell in row if cell == "." or cell.isdigit()] for row in rows]
    grid = [row for row in grid if len(row) == 9]
    return grid[-9:] if len(grid) >= 9 else None


def solve_sudoku(grid: list[list[int]]) -> bool:
    """Fill the empty cells of a board in place; return whether that is possible."""

    def candidates(row: int, column: int) -> list[int]:
        top, left = row - row % 3, column - column % 3
        used = {*grid[row], *(line[column] for line in grid)}
        used |= {grid[top + down][left + right] for down in range(3) for right in range(3)}
        return [number for number in range(1, 10) if number not in used]

    empty = [(row, column) for row in range(9) for column in range(9) if not grid[row][column]]
    if not empty:
        return True
    row, column = min(empty, key=lambda cell: len(candidates(*cell)))
    for number in candidates(row, column):
        grid[row][column] = number
        if solve_sudoku(grid):
            return True
    grid[row][column] = 0
    return False


class Sudoku:
    """Solves the first board that it reads, then plays the solution cell by cell."""

    def __init__(self) -> None:
        self.moves: list[tuple[int, int, int]] = []

    def __call__(self, messages: Messages, turn: int) -> str:
        if not self.moves:
            grid = next(filter(None, map(read_sudoku, observations(messages))), None)
            assert grid is not None, "no board in the texts"
            empty = [(row, column) for row in range(9) for column in range(9) if not grid[row][column]]
            assert solve_sudoku(grid)
            self.moves = [(row + 1, column + 1, grid[row][column]) for row, column in empty]
        row, column, number = self.moves[min(turn, len(self.moves)) - 1]
        return f"My move is [{row} {column} {number}]"


class TextCraft:
    """Plans from the list of recipes: gets what can be got and crafts the rest, in the form of AgentGym's agents."""

    def __init__(self) -> None:
        self.plan: list[str] = []
        self.stock: dict[str, int] = {}
        self.recipes: dict[str, list[tuple[int, list[tuple[int, str]]]]] = {}

    def __call__(self, messages: Messages, turn: int) -> str:
        if not self.plan:
            text = observations(messages)[0]
            for count, item, parts in re.findall(r"craft (\d+) (.+?) using (.+)", text):
                ingredients = [re.findall(r"(\d+) (.*)", part.strip())[0] for part in parts.split(",")]
                recipe = int(count), [(int(number), name) for number, name in ingredients]
                self.recipes.setdefault(item, []).append(recipe)
            goal = re.findall(r"Goal: craft (.*?)\.", text)[0]
            self.obtain(goal, 1, {goal})
        return f"Thought:\nThe next step of the plan.\n\nAction:\n{self.plan[min(turn, len(self.plan)) - 1]}"

    def obtain(self, item: str, count: int, path: set[str]) -> str:
        """Plan for a number of an item; return its name, which for a tag is that of an item of this kind."""
        recipes = [recipe for recipe in self.recipes.get(item, []) if not any(name in path for _, name in recipe[1])]
        kinds = [name for name in self.recipes if item in TAGS and name.endswith(f" {item}") and name not in path]
        if not recipes and kinds:
            return self.obtain(kinds[0], count, path | {item})
        missing = count - self.stock.get(item, 0)
        if missing > 0 and not recipes:
            self.plan.append(f"get {missing} {item}")
            self.stock[item] = count
        while self.stock.get(item, 0) < count:
            made, ingredients = recipes[0]
            used = []
            for number, ingredient in ingredients:
                name = self.obtain(ingredient, number, path | {item})
                self.stock[name] -= number  # set aside for this recipe
                used.append(f"{number} {name}")
            self.plan.append(f"craft {made} {item} using {', '.join(used)}")
            self.stock[item] = self.stock.get(item, 0) + made
        return item
