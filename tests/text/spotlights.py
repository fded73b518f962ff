"""A player of Searing Spotlights that acts on the texts alone: it tracks the spotlights and searches in place and time.

The player is written from the prompt. The prompt does not give the radii and the paths of the spotlights: the player
estimates them from the brightness of the squares.
"""

import functools
import itertools
import re

import numpy as np

SCREEN, SQUARE, SQUARES = 84, 12, 7
RADIUS = 6  # of the player, in pixels
LOW, HIGH = np.array([6, 10]), np.array([78, 78])  # the walls
MOVES = list(itertools.product((0, -1, 1), repeat=2))  # signs for x and y; the first one is wait
SEEN = re.compile(r"(You|Coin|Exit): x (\d+), y (\d+)")

SAMPLE = 2  # pixels between the points at which the light of a spotlight is computed
POINTS = np.arange(SAMPLE / 2, SCREEN, SAMPLE)
EDGE = 1.0  # pixels over which the edge of a spotlight is smoothed
TYPICAL_RADIUS, TYPICAL_SPEED = 9.0, 0.7
STEP = np.eye(5)  # a spotlight is x, y, the velocity in x and in y, and the radius
STEP[0, 2] = STEP[1, 3] = 1
DRIFT = np.diag([0.003, 0.003, 0.0005, 0.0005, 0.001])  # variances that a step adds: the paths are curved


def shift(move: tuple[int, int]) -> np.ndarray:
    """Return the pixels that a move has along each axis."""
    return np.array(move) * (2 if move[0] and move[1] else 3)


STARTS = [3 + shift(move) for move in MOVES]  # for arrays that 3 px are added to at each edge


def action_of(move: tuple[int, int]) -> str:
    """Return the reply that makes a move."""
    names = ("up", "", "down")[move[1] + 1], ("left", "", "right")[move[0] + 1]
    return f"<action>{'-'.join(name for name in names if name) or 'wait'}</action>"


def means(image: np.ndarray) -> np.ndarray:
    """Return the mean of an image in each square, row by row."""
    return image.reshape(SQUARES, SQUARE // SAMPLE, SQUARES, SQUARE // SAMPLE).mean((1, 3)).ravel()


def sigmoid(value: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(np.clip(-value, -30, 30)))


def circle(x: float, y: float, radius: float) -> np.ndarray:
    """Return the part of each square that a circle covers."""
    return means(sigmoid((radius - np.hypot(POINTS[None, :] - x, POINTS[:, None] - y)) / EDGE))


PLACES = np.array(list(itertools.product(np.arange(-9.0, 94, 3), repeat=2)))  # where a new spotlight may be
PATTERNS = np.array([circle(x, y, TYPICAL_RADIUS) for x, y in PLACES])


class Tracker:
    """Estimate of the spotlights: an extended Kalman filter of their places, velocities and radii."""

    def __init__(self):
        self.state, self.cov = np.zeros((0, 5)), np.zeros((0, 0))

    def predict(self) -> None:
        """Move the spotlights by one step."""
        move = np.kron(np.eye(len(self.state)), STEP)
        self.state = self.state @ STEP.T
        self.cov = move @ self.cov @ move.T + np.kron(np.eye(len(self.state)), DRIFT)

    def update(self, light: np.ndarray, noise: np.ndarray) -> None:
        """Correct the estimate by the lit part of each square, given the variances of these numbers."""
        self._correct(light, noise)
        while self._add(light - self._covered()[0], noise):
            self._correct(light, noise)
        self._drop(light)

    def _covered(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lit part of each square, and its derivatives by the numbers of the spotlights."""
        jacobian = np.zeros((SQUARES**2, 5 * len(self.state)))
        dark, slopes = [np.ones((len(POINTS), len(POINTS)))], []
        for x, y, _, _, radius in self.state:
            dx, dy = POINTS[None, :] - x, POINTS[:, None] - y
            distance = np.hypot(dx, dy) + 1e-6
            lit = sigmoid((radius - distance) / EDGE)
            slope = lit * (1 - lit) / EDGE
            dark.append(1 - lit)
            slopes.append((slope * dx / distance, slope * dy / distance, slope))
        for i, parts in enumerate(slopes):
            others = np.prod(dark[: i + 1] + dark[i + 2 :], axis=0)
            for column, part in zip((0, 1, 4), parts, strict=True):
                jacobian[:, 5 * i + column] = means(part * others)
        return means(1 - np.prod(dark, axis=0)), jacobian

    def _correct(self, light: np.ndarray, noise: np.ndarray) -> None:
        if not len(self.state):
            return
        prior = self.state.ravel()
        for _ in range(2):  # the light is not linear in the places
            expected, jacobian = self._covered()
            gain = self.cov @ jacobian.T @ np.linalg.inv(jacobian @ self.cov @ jacobian.T + np.diag(noise))
            state = prior + gain @ (light - expected - jacobian @ (prior - self.state.ravel()))
            self.state = state.reshape(-1, 5)
            self.state[:, 4] = np.clip(self.state[:, 4], 5, 16)
        cov = self.cov - gain @ jacobian @ self.cov
        self.cov = (cov + cov.T) / 2 + 1e-6 * np.eye(len(cov))

    def _add(self, rest: np.ndarray, noise: np.ndarray) -> bool:
        """Add the spotlight that explains most of the light left, if it explains enough."""
        gains = 2 * PATTERNS @ (rest / noise) - PATTERNS**2 @ (1 / noise)
        best = int(gains.argmax())
        if gains[best] < 3 or len(self.state) > 12:
            return False
        inward = SCREEN / 2 - PLACES[best]
        velocity = inward / (np.linalg.norm(inward) + 0.01) * TYPICAL_SPEED * (np.abs(inward).max() > 30)
        self.state = np.vstack([self.state, [*PLACES[best], *velocity, TYPICAL_RADIUS]])
        rows = len(self.cov)
        cov = np.diag(np.array([4.0, 4.0, 0.7, 0.7, 2.0]) ** 2)
        self.cov = np.block([[self.cov, np.zeros((rows, 5))], [np.zeros((5, rows)), cov]])
        return True

    def _drop(self, light: np.ndarray) -> None:
        """Forget the spotlights that have left the screen, and those that the light contradicts."""
        keep = []
        for i, (x, y, vx, vy, radius) in enumerate(self.state):
            outside = max(-x, x - SCREEN, -y, y - SCREEN)
            leaves = (x - SCREEN / 2) * vx + (y - SCREEN / 2) * vy > 0
            own = circle(x, y, radius)
            is_missing = own.max() > 0.2 and light[own.argmax()] < 0.3 * own.max()
            if not (is_missing or outside > radius + (-1 if leaves else 4)):
                keep.append(i)
        rows = [5 * i + k for i in keep for k in range(5)]
        self.state, self.cov = self.state[keep], self.cov[np.ix_(rows, rows)]


class Planner:
    """Search in place and time for the way with the fewest expected hits."""

    HORIZON = 30  # steps
    REST = 10  # steps after it, in which the spotlights are taken to stand still
    PACE = 0.008  # cost of a step, in hits: more spotlights appear as time goes by

    def __init__(self):
        self.x, self.y = (np.arange(low, high + 1, dtype=np.float32) for low, high in zip(LOW, HIGH, strict=True))
        self.padded_x, self.padded_y = np.ix_(
            *(np.pad(np.arange(len(axis)), 3, mode="edge") for axis in (self.x, self.y))
        )
        margin_x, margin_y = np.minimum(self.x, SCREEN - self.x), np.minimum(self.y, SCREEN - self.y)
        self.entering = np.float32(0.03) * np.exp((RADIUS - np.minimum.outer(margin_x, margin_y)) / 5)

    def distance(self, place: np.ndarray) -> np.ndarray:
        return np.hypot.outer(self.x - place[0], self.y - place[1])

    def hits(self, tracker: Tracker) -> list[np.ndarray]:
        """Return the chance of a hit in each place for each of the next steps."""
        state, cov = tracker.state, tracker.cov
        move, drift = (np.kron(np.eye(len(state)), part) for part in (STEP, DRIFT))
        layers = []
        for time in range(self.HORIZON):
            state, cov = state @ STEP.T, move @ cov @ move.T + drift
            safe = 1 - self.entering * np.float32(min(1.0, time / 5))
            for i, (x, y, _, _, radius) in enumerate(state):
                spread = np.diag(cov)[5 * i : 5 * i + 5]
                width = 0.55 * np.sqrt(0.3 + min(30, (spread[0] + spread[1]) / 2 + spread[4]))
                reach = radius + RADIUS + 0.5
                left, top, right, bottom = (
                    max(0, round(place - low + side * (reach + 5 * width)))
                    for side in (-1, 1)
                    for place, low in ((x, LOW[0]), (y, LOW[1]))
                )
                near = slice(left, right), slice(top, bottom)
                distance = np.hypot.outer(self.x[near[0]] - np.float32(x), self.y[near[1]] - np.float32(y))
                safe[near] *= 1 - sigmoid((np.float32(reach) - distance) / np.float32(width))
            layers.append(1 - safe)
        return layers

    def leave(self, hits: list[np.ndarray]) -> list[np.ndarray]:
        """Return the hits on the best way without a target, in each place for each of the next steps."""
        values = [np.zeros_like(self.entering)]
        for chance in [hits[-1]] * self.REST + hits[::-1]:
            values.append(functools.reduce(np.minimum, self._options(values[-1] + chance)))
        return values[self.REST :][::-1]

    def move(
        self,
        place: np.ndarray,
        targets: list[tuple[np.ndarray, float]],
        hits: list[np.ndarray],
        after: list[np.ndarray] | None = None,
        late: float = 0.0,
    ):
        """Return the move that begins the best way to the targets.

        Args:
            place: Place of the player.
            targets: Places and reaches, in this order.
            hits: Chance of a hit in each place for each of the steps to plan.
            after: Cost in each place and at each time after the last target.
            late: Cost if a target is not reached in these steps.
        """
        after = after or [np.zeros_like(self.entering)] * (len(hits) + 1)
        for index in range(len(targets) - 1, -1, -1):
            target, reach = targets[index][0].astype(np.float32), targets[index][1]
            dx, dy = np.abs(self.x - target[0])[:, None], np.abs(self.y - target[1])[None, :]
            steps = np.minimum(dx, dy) / 2 + np.abs(dx - dy) / 3 - reach / 3
            near = tuple(self._index(target))
            is_reached = self.distance(target) <= reach
            values = [after[-1][near] + (3 * self.PACE + late / 30) * np.maximum(0, steps) + late * ~is_reached]
            for time in range(len(hits) - 1, -1, -1):
                options = self._options(values[-1] + hits[time])
                values.append(np.where(is_reached, after[time], functools.reduce(np.minimum, options) + self.PACE))
            after = values[::-1]
        here = tuple(self._index(place))
        return MOVES[int(np.argmin([option[here] for option in options]))]

    def _index(self, place: np.ndarray) -> np.ndarray:
        return np.clip(np.round(place).astype(int), LOW, HIGH) - LOW

    def _options(self, value: np.ndarray) -> list[np.ndarray]:
        """Return the value after each move; walls stop the moves."""
        padded = value[self.padded_x, self.padded_y]
        return [padded[x : x + len(self.x), y : y + len(self.y)] for x, y in STARTS]


class Belief:
    """Possible places of one object, with weights."""

    def __init__(self, places: np.ndarray, weights: np.ndarray | None = None):
        self.places = np.array(places, float).reshape(-1, 2)
        self.weights = np.ones(len(self.places)) if weights is None else np.array(weights, float)
        self.weights /= self.weights.max()

    @property
    def is_known(self) -> bool:
        return len(self.places) == 1

    def best(self) -> np.ndarray:
        """Return the place with the most weight around it."""
        likely = np.argsort(-self.weights)[:200]
        near = np.hypot(*(self.places[likely, None] - self.places[None, likely]).transpose(2, 0, 1)) < 5
        return self.places[likely[(near @ self.weights[likely]).argmax()]]

    def exclude(self, center: np.ndarray, low: float, high: float) -> None:
        """Exclude places at these distances from a center; if none would be left, those around them are possible."""
        for _ in range(4):
            distance = np.hypot(*(self.places - center).T)
            weights = self.weights * ((distance < low) | (distance > high))
            if weights.max() > 0:
                self.weights = weights / weights.max()
                return
            nearest = np.min([np.hypot(*(GRID - place).T) for place in self.places], axis=0)
            self.places = GRID[nearest < 4]
            self.weights = np.ones(len(self.places))

    def move(self, pixels: np.ndarray) -> None:
        """Move all places until a wall; drop the unlikely ones, and join those that are now the same."""
        is_likely = self.weights > 1e-3
        moved = np.clip(self.places[is_likely] + pixels, LOW, HIGH)
        self.places, index = np.unique(moved, axis=0, return_inverse=True)
        self.weights = np.bincount(index.ravel(), self.weights[is_likely])
        self.weights /= self.weights.max()


MARGIN = 0.7  # pixels by which places are uncertain when a target is touched
GRID = np.array(list(itertools.product(range(SCREEN), repeat=2)), float)  # all places, as x and y


def boxes(places: np.ndarray, half: float) -> np.ndarray:
    """Return the part of each square that a box around each place covers."""
    edges = np.arange(SQUARES) * SQUARE
    wide, high = (
        np.clip(np.minimum(place[:, None] + half, edges + SQUARE) - np.maximum(place[:, None] - half, edges), 0, None)
        for place in places.T
    )
    return (high[:, :, None] * wide[:, None, :]).reshape(len(places), -1) / SQUARE**2


LAST = 8  # steps that the endless variant plans at least
SPARE = 30  # steps of the time for a coin that the endless variant keeps for a search


class SearingSpotlights:
    """Player of Searing Spotlights and of its endless variant."""

    def __init__(self, prompt: str):
        counted = re.search(r"collect (\d+) coin", prompt)
        self.is_endless = counted is None
        self.count = int(counted[1]) if counted else 1
        self.fade_steps = int(re.search(r"fades during the first (\d+) steps", prompt)[1])
        self.reach = float(re.search(r"touch a coin if .*? at most (\d+) px", prompt)[1])
        exit_reach = re.search(r"the exit if they are at most (\d+) px", prompt)
        self.exit_reach = float(exit_reach[1]) if exit_reach else None
        limit = re.search(r"have not collected a coin for (\d+) steps", prompt)
        self.limit = int(limit[1]) if limit else 0  # steps for each coin
        self.health = float(re.search(r"you start with ([\d.]+) health", prompt)[1])
        self.tracker, self.planner = Tracker(), Planner()
        self.time = 0
        self.waited = 0  # steps since the last positive reward
        self.green = 0  # pixels of the health bar
        self.move = MOVES[0]
        self.exit: Belief | None = None
        self.coins: list[Belief] = []
        self.coins_before: list[Belief] = []  # one text earlier
        self.unseen = 0  # texts since a coin was listed

    def reply(self, text: str) -> str:
        """Update what is known, then make the best move."""
        rows = re.findall(r"^\d(?: \d){6}$", text, re.MULTILINE)
        light = np.array([line.split() for line in rows], int).ravel()
        seen: dict[str, list[np.ndarray]] = {"You": [], "Coin": [], "Exit": []}
        for name, x, y in SEEN.findall(text):
            seen[name].append(np.array([x, y], float))
        if self.time:
            self._notice(text, seen)
        else:
            self._begin(seen, light)
        if self.time < self.fade_steps:
            self._locate(light)
        else:
            self._track(light)
            self._notice_hit(text)
        self.time += 1
        self.move = self._choose()
        return action_of(self.move)

    def _begin(self, seen: dict[str, list[np.ndarray]], light: np.ndarray) -> None:
        """Take the places of the objects; what is not listed is under the bar, at an edge or under another object."""
        others = [place for places in seen.values() for place in places]
        near = np.any([np.hypot(*(GRID - place).T) < 14 for place in others] or [GRID[:, 0] < 0], axis=0)
        is_beyond = ((GRID < LOW) | (GRID > HIGH)).any(1)
        self.you = Belief(seen["You"] or GRID[is_beyond | near])
        self.coins = [Belief(place) for place in seen["Coin"]]
        if len(self.coins) < self.count:
            self.coins.append(Belief(GRID[(GRID[:, 1] < 7) | near]))
        if self.exit_reach is not None:
            self.exit = Belief(seen["Exit"] or GRID)
        if self.exit is not None and not self.exit.is_known:  # it is large and dark
            errors = ((9 - 6 * boxes(GRID, 5.5) - light) ** 2).sum(1)
            self.exit.weights = np.exp((errors.min() - errors) / 0.6) * np.where((GRID[:, 1] < 10) | near, 1, 0.01)

    def _notice(self, text: str, seen: dict[str, list[np.ndarray]]) -> None:
        """Move the player, and use the reward, which is one step late, and the objects that are visible."""
        before = self.you.best()
        touched, self.coins_before = self.coins_before, list(self.coins)
        self.waited = 0 if "reward positive" in text else self.waited + 1
        if "reward positive" in text and self.is_endless:
            if touched[0].is_known:
                self.you.exclude(touched[0].places[0], self.reach + MARGIN, np.inf)
        elif "reward positive" in text and self.coins:
            coin = min(self.coins, key=lambda coin: np.hypot(*(coin.best() - before)))
            self.coins.remove(coin)
            if coin.is_known:
                self.you.exclude(coin.places[0], self.reach + MARGIN, np.inf)
        elif "reward not positive" in text:
            for coin in self.coins:
                self._miss(coin, before, self.reach)
        self.you.move(shift(self.move))
        if seen["You"]:
            self.you = Belief(seen["You"])
        if self.exit is not None and seen["Exit"]:
            self.exit = Belief(seen["Exit"])
        elif self.exit is not None and not self.coins:
            self._miss(self.exit, self.you.best(), self.exit_reach)
        self.unseen = 0 if seen["Coin"] else self.unseen + 1
        if self.is_endless and "reward positive" in text and self.unseen > 1:  # the new coin is not listed
            near = np.hypot(*(GRID - before).T) < 14
            self.coins = [Belief(GRID[(GRID[:, 1] < 7) | near])]
        for place in seen["Coin"]:
            if self.coins:
                nearest = min(self.coins, key=lambda coin: np.hypot(*(coin.best() - place)))
                self.coins[self.coins.index(nearest)] = Belief(place)

    def _miss(self, target: Belief, best: np.ndarray, reach: float) -> None:
        """Exclude places at which the player would have touched a target."""
        if target.is_known:
            self.you.exclude(target.places[0], 0, reach - MARGIN)
        else:
            target.exclude(best, 0, reach - MARGIN)

    def _locate(self, light: np.ndarray) -> None:
        """Weigh the possible places by the squares that an object darkens, while the light fades."""
        is_dark = light < light.max()
        is_half = self.time % 2 == 1  # the brightness is close to the middle of two digits: any object changes it
        for belief, half, others in (
            (self.you, 5.5, [*self.coins, self.exit]),
            *((coin, 3.0, [self.you, self.exit]) for coin in self.coins),
        ):
            if belief.is_known or (half < 5 and not is_half):
                continue
            places = np.array([other.best() for other in others if other is not None and other is not belief])
            is_free = (boxes(places, 7) == 0).all(0)
            covered = boxes(belief.places, half)[:, is_free]
            chance = sigmoid((covered - 0.03) / 0.01) if is_half else sigmoid((covered - 0.4) / 0.12)
            chance = np.where(is_dark[is_free], chance, 1 - chance)
            belief.weights = belief.weights * np.prod(np.clip(chance, 0.03, 1), axis=1)
            belief.weights /= belief.weights.max()

    def _track(self, light: np.ndarray) -> None:
        noise = np.full(SQUARES**2, 0.0015)
        for belief, spread in ((self.you, 0.1), *((coin, 0.15) for coin in self.coins), (self.exit, 0.3)):
            if belief is not None:
                noise += spread**2 * (boxes(belief.best()[None], RADIUS)[0] > 0)
        self.tracker.predict()
        self.tracker.update(light / 9, noise)

    def _notice_hit(self, text: str) -> None:
        """Weigh the possible places by whether a spotlight touches the player there."""
        before, self.green = self.green, int(re.search(r"Health bar: (\d+) of", text)[1])
        safe = np.ones(len(self.you.places))
        for x, y, _, _, radius in self.tracker.state:
            distance = np.hypot(self.you.places[:, 0] - x, self.you.places[:, 1] - y)
            safe *= 1 - sigmoid((radius + RADIUS - distance) / 1.5)
        self.you.weights = self.you.weights * np.clip(1 - safe if self.green < before else safe, 0.05, 1)
        self.you.weights /= self.you.weights.max()

    def _choose(self) -> tuple[int, int]:
        """Return the move toward the coins that are not touched yet, in the shortest order, and toward the exit."""
        here = self.you.best()
        places = [coin.best() for coin in self.coins]
        places = [place for place in places if np.hypot(*(place - here)) > self.reach - MARGIN]
        last = [self.exit.best()] if self.exit is not None else []

        def length(order: tuple[np.ndarray, ...]) -> float:
            way = [here, *order, *last]
            return sum(np.hypot(*(b - a)) for a, b in itertools.pairwise(way))

        targets = [(place, self.reach - MARGIN) for place in min(itertools.permutations(places), key=length)]
        targets += [(place, self.exit_reach - MARGIN) for place in last]
        hits = self.planner.hits(self.tracker)
        if not self.is_endless:
            return self.planner.move(here, targets or [(here, 1.0)], hits)
        left = max(LAST, self.limit - SPARE - self.waited)
        after, hits = self.planner.leave(hits), hits[:left]
        late = self.health if left < self.planner.HORIZON else 0.0
        return self.planner.move(here, targets or [(here, 1.0)], hits, after[: len(hits) + 1], late)
