"""Players that act on the texts alone: each reads the system prompt, then one observation text per turn.

They are written from the prompts, not from the rules in code, so they show whether the texts suffice to play.
"""

import re

WAIT = "<action>wait</action>"
DIRECTIONS = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}  # clockwise, as (row, column)

LENGTHENING = 0.15  # weight of a way that is one tile longer, for guesses in Mystery Path

Tile = tuple[int, int]


def act(action: str) -> str:
    """Return a reply in the form that most prompts ask for."""
    return f"<action>{action}</action>"


def numbers(pattern: str, text: str) -> Tile:
    """Return the two numbers that a pattern captures."""
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"expected {pattern!r}, got {text!r}.")
    return int(found[1]), int(found[2])


def tile_of(text: str) -> Tile:
    """Return the row and column of the player's tile."""
    return numbers(r"You: .*?row (\d+), column (\d+)", text)


def step_toward(direction: str, text: str, is_grid: bool) -> str:
    """Return the action that moves into a direction: on a grid, the player has to face it first."""
    if not is_grid:
        return act(direction)
    facing = re.search(r"facing (\w+)", text)[1]
    order = list(DIRECTIONS)
    turns = (order.index(direction) - order.index(facing)) % 4
    return act(["forward", "turn right", "turn right", "turn left"][turns])


class MortarMayhem:
    """Player of all variants of Mortar Mayhem."""

    def __init__(self, prompt: str):
        self.is_grid = "turn left" in prompt
        self.size = int(re.search(r"arena of (\d+) x", prompt)[1])
        self.wraps = "Opposite sides of the arena are connected" in prompt
        self.length = int(re.search(r"sequence (?:of|has length) (\d+)", prompt)[1])
        self.commands: list[str] = []
        self.pending: list[str] = []
        self.target: Tile = (0, 0)
        self.is_visible = False  # whether the last text showed a command
        self.needs_target = True
        self.last = WAIT

    def reply(self, text: str) -> str:
        """Memorize shown commands; otherwise walk to the next target, and wait there until the tiles are safe."""
        if "on no tile" not in text:  # at the edge of an arena whose sides are connected: go on
            self.last = self._reply(text)
        return self.last

    def _reply(self, text: str) -> str:
        tile = tile_of(text)
        listed = re.search(r"Commands: (.*)", text)
        shown = re.search(r"Command shown: (?!none)(.*)", text)
        if listed and not self.commands:
            self.commands, self.target = listed[1].split(", "), tile
            self.pending = list(self.commands)
        if shown and not self.is_visible:
            self.commands.append(shown[1])
            self.pending, self.target = list(self.commands), tile
        self.is_visible = bool(shown)
        if not re.search("Red tiles: none", text):
            self.needs_target = True
            return WAIT
        if shown or len(self.commands) < self.length:
            return WAIT
        if self.needs_target and self.pending:
            self.target = self._moved(self.target, self.pending.pop(0))
            self.needs_target = False
        for axis, names in enumerate((("up", "down"), ("left", "right"))):
            distance = self.target[axis] - tile[axis]
            if self.wraps:  # the shorter way around
                distance = (distance + self.size // 2) % self.size - self.size // 2
            if distance:
                return step_toward(names[distance > 0], text, self.is_grid)
        return WAIT

    def _moved(self, tile: Tile, command: str) -> Tile:
        row, column = tile
        for name in command.split("-"):
            if name != "stay":
                row, column = row + DIRECTIONS[name][0], column + DIRECTIONS[name][1]
        if self.wraps:
            row, column = (row - 1) % self.size + 1, (column - 1) % self.size + 1
        return row, column


class FrozenLake:
    """Player of Frozen Lake: the shortest way that crosses no hole."""

    def __init__(self, prompt: str):
        del prompt

    def reply(self, text: str) -> str:
        """Search the lake that the text draws."""
        lake = [line.split() for line in text.splitlines() if re.fullmatch(r"[PSFHG*]( [PSFHG*])*", line)]
        cells = {(row, column): cell for row, line in enumerate(lake) for column, cell in enumerate(line)}
        start = next(place for place, cell in cells.items() if cell == "P")
        reached: dict[Tile, str] = {start: ""}  # each cell with the first move of the way to it
        queue = [start]
        for place in queue:
            if cells[place] == "G":
                return act(reached[place])
            for name, (down, right) in DIRECTIONS.items():
                near = place[0] + down, place[1] + right
                if near not in reached and cells.get(near, "H") != "H":
                    reached[near] = reached[place] or name
                    queue.append(near)
        raise ValueError("expected a way to the goal, got none.")


class Sudoku:
    """Player of Sudoku: solve the puzzle by search, then fill the first empty cell."""

    def __init__(self, prompt: str):
        del prompt
        self.solution: dict[Tile, int] = {}

    def reply(self, text: str) -> str:
        """Fill the first empty cell of the board."""
        board: dict[Tile, int] = {}
        for row, line in re.findall(r"^R(\d) (.*)", text, re.MULTILINE):
            for column, cell in enumerate(line.replace("|", " ").split(), 1):
                board[int(row), column] = 0 if cell == "." else int(cell)
        if not self.solution:
            self.solution = dict(board)
            if not self._solve(self.solution):
                raise ValueError("expected a puzzle with a solution, got none.")
        row, column = next(place for place, digit in board.items() if not digit)
        return f"[{row} {column} {self.solution[row, column]}]"

    def _solve(self, board: dict[Tile, int]) -> bool:
        """Fill the empty cell with the fewest options first; undo what leads nowhere."""
        options = {place: _options(board, place) for place, digit in board.items() if not digit}
        if not options:
            return True
        place = min(options, key=lambda place: len(options[place]))
        for digit in options[place]:
            board[place] = digit
            if self._solve(board):
                return True
        board[place] = 0
        return False


def _options(board: dict[Tile, int], place: Tile) -> set[int]:
    row, column = place
    seen = {
        digit
        for (r, c), digit in board.items()
        if r == row or c == column or ((r - 1) // 3, (c - 1) // 3) == ((row - 1) // 3, (column - 1) // 3)
    }
    return set(range(1, 10)) - seen


class TextCraft:
    """Player of TextCraft: plan all commands from the first text."""

    def __init__(self, prompt: str):
        del prompt
        self.plan: list[str] = []

    def reply(self, text: str) -> str:
        """Give the next command of the plan."""
        if not self.plan:
            self.recipes = [
                (int(amount), item, [(int(n), name) for n, name in re.findall(r"(\d+) ([^,]+)", inputs)])
                for amount, item, inputs in re.findall(r"^craft (\d+) (.+) using (.+)$", text, re.MULTILINE)
            ]
            self._choose_recipes()
            self._obtain(re.search(r"Goal: craft (.+)\.", text)[1], 1)
        return act(self.plan.pop(0))

    def _choose_recipes(self) -> None:
        """Choose a recipe for each item, such that its inputs can be made without the item itself."""
        made = {item for _, item, _ in self.recipes}
        self.recipe_of: dict[str, tuple[int, list[tuple[int, str]]]] = {}
        self.members = {name: _members(name, made, self.recipes) for *_, inputs in self.recipes for _, name in inputs}
        for _ in self.recipes:
            for amount, item, inputs in self.recipes:
                named = [(n, self._available(name, made)) for n, name in inputs]
                if item not in self.recipe_of and all(name for _, name in named):
                    self.recipe_of[item] = amount, named

    def _available(self, name: str, made: set[str]) -> str:
        """Return an item for an input that can already be obtained, or nothing."""
        return next((item for item in self.members[name] if item in self.recipe_of or item not in made), "")

    def _obtain(self, item: str, amount: int) -> None:
        """Append the commands that add an amount of an item to the inventory."""
        if item not in self.recipe_of:
            self.plan += [f"get {min(64, amount - done)} {item}" for done in range(0, amount, 64)]
            return
        made, inputs = self.recipe_of[item]
        times = -(-amount // made)
        for n, name in inputs:
            self._obtain(name, n * times)
        using = ", ".join(f"{n} {name}" for n, name in inputs)
        self.plan += [f"craft {made} {item} using {using}"] * times


def _members(name, made, recipes):
    """Return the items that an input stands for: the members of a group, or the item of this name."""
    uses = {item: [n for _, n in inputs] for _, item, inputs in recipes}
    if name in made:
        return [name]
    return [item for item in made if item.endswith(" " + name) and name not in uses[item]] or [name]


class MysteryPath:
    """Player of Mystery Path with an end: find the path tile by tile, and walk it again after a fall."""

    def __init__(self, prompt: str):
        self.is_grid = "turn left" in prompt
        self.size = int(re.search(r"square of (\d+) x", prompt)[1])
        self.path: list[Tile] = []  # the known tiles of the path, as found
        self.holes: set[Tile] = set()
        self.guess: Tile | None = None

    def reply(self, text: str) -> str:
        """Walk over known tiles of the path to the most promising unknown tile."""
        tile = tile_of(text)
        if "Red cross: on you" in text:
            self.holes.add(tile)
            self.guess = None
            return WAIT
        if tile not in self.path:
            self.path.append(tile)
            self.guess = None
        self.guess = self.guess or self._guess()
        target = self._way(tile, self.guess)
        direction = (target[0] - tile[0], target[1] - tile[1])
        return step_toward(next(name for name, d in DIRECTIONS.items() if d == direction), text, self.is_grid)

    def _near(self, tile: Tile) -> list[Tile]:
        """Return the tiles beside a tile that may be part of the path."""
        near = [(tile[0] + down, tile[1] + right) for down, right in DIRECTIONS.values()]
        return [t for t in near if min(t) >= 1 and max(t) <= self.size and t not in self.holes]

    def _way(self, tile: Tile, target: Tile) -> Tile:
        """Return the next tile of the shortest way to the target over known tiles."""
        reached, queue = {target}, [target]
        for place in queue:
            for near in self._near(place):
                if near == tile:
                    return place
                if near in self.path and near not in reached:
                    reached.add(near)
                    queue.append(near)
        raise ValueError("expected a way over the path, got none.")

    def _guess(self) -> Tile:
        """Return the tile beside the newest one, or else an older one, that most short ways to the goal pass."""
        row, column = self.path[0]
        far = self.size + 1
        goals = [(axis, far - start) for axis, start in enumerate((row, column)) if start in (1, self.size)]
        unknown = [(r, c) for r in range(1, far) for c in range(1, far) if (r, c) not in self.holes | set(self.path)]
        weight = dict.fromkeys(unknown, 0.0)
        for _ in range(2 * self.size):
            weight = {
                tile: any(tile[axis] == side for axis, side in goals)
                + LENGTHENING * sum(weight.get(near, 0.0) for near in self._near(tile))
                for tile in unknown
            }
        for place in reversed(self.path):
            options = [near for near in self._near(place) if near in weight]
            if options:
                return max(options, key=weight.__getitem__)
        raise ValueError("expected an unknown tile beside the path, got none.")


class EndlessMysteryPath:
    """Player of Endless Mystery Path: try up and down before right, because falls may not lie behind the player."""

    def __init__(self, prompt: str):
        self.rows = int(re.search(r"The world has (\d+) rows", prompt)[1])
        width = re.search(r"Each tile is (\d+) px wide", prompt)  # with an image, it is a share of 84 px
        self.width = int(width[1]) if width else 84 // int(re.search(r"Each tile is 1/(\d+) as wide", prompt)[1])
        self.pace = int(re.search(r"right, up and down move you (\d+) px", prompt)[1])
        self.x = 0  # pixels from the left edge of the start tile
        self.path: list[Tile] = []
        self.holes: set[Tile] = set()

    def reply(self, text: str) -> str:
        """Walk along the known path, and from its last tile to an unknown one."""
        tile = int(re.search(r"\(row (\d+)\)", text)[1]), self.x // self.width
        if "Red cross: on you" in text:
            self.holes.add(tile)
            self.x = 0
            return WAIT
        if tile not in self.path:
            self.path.append(tile)
        tried = [*self.path[self.path.index(tile) + 1 :][:1], *self._untried(tile)]
        if tried[0][1] > tile[1]:
            self.x += self.pace
            return act("right")
        return act("up" if tried[0][0] < tile[0] else "down")

    def _untried(self, tile: Tile) -> list[Tile]:
        row, column = tile
        near = [(row - 1, column), (row + 1, column), (row, column + 1)]
        return [t for t in near if 1 <= t[0] <= self.rows and t not in self.holes and t not in self.path]
