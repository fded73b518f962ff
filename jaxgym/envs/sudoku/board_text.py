"""Texts of Sudoku boards, and hints for them."""

from typing import Any

import numpy as np

from jaxgym.envs.sudoku.level import BOX, NUM_CELLS, SIZE

_TRIED, _SURE, _FEW = "MOVES TRIED (do not repeat): ", "GUARANTEED MOVES (only one option): ", "Other options: "
_MOST_SHOWN, _MOST_HINTS, _FEW_OPTIONS = 10, 5, 3
_ALL = (1 << SIZE) - 1
_DIGITS = [",".join(str(place + 1) for place in range(SIZE) if bits >> place & 1) for bits in range(_ALL + 1)]
_PLACES = np.asarray([bits.bit_count() or SIZE + 1 for bits in range(_ALL + 1)], np.int8)
"""Rank of cells in hints by their candidate bits: fewest candidates first, filled cells last."""

_HEADER = "   " + " ".join(f"C{column}" + "  " * (column % BOX == 0) for column in range(1, SIZE + 1))
_SEPARATOR = "   " + "- " * 16


def _template() -> tuple[np.ndarray, np.ndarray]:
    """Return the board's text with empty cells, as bytes, and the position of each cell in it, int (81,)."""
    lines = [_HEADER]
    for row in range(1, SIZE + 1):
        lines.append(f"R{row} " + "| ".join([" . " * BOX] * BOX).rstrip())
        if row % BOX == 0 and row < SIZE:
            lines.append(_SEPARATOR)
    board = np.frombuffer("\n".join(lines).encode(), np.uint8)
    return board, np.flatnonzero(board == ord("."))


_BOARD, _CELLS = _template()
_SYMBOLS = np.frombuffer(b".123456789", np.uint8)


def board_texts(boards: Any) -> list[str]:
    """Return the texts of boards, int8 (B, 9, 9) with 0 for empty cells."""
    texts = np.tile(_BOARD, (len(boards), 1))
    texts[:, _CELLS] = _SYMBOLS[boards.reshape(-1, NUM_CELLS)]
    joined, length = texts.tobytes().decode("ascii"), len(_BOARD)
    return [joined[start : start + length] for start in range(0, len(joined), length)]


def hint_texts(boards: Any, tried: Any) -> list[str]:
    """Return the hints of boards: up to three lines each, with a line break before each line.

    The first line has the newest ten different moves. The others list empty cells by their candidates (digits that row,
    column and box allow), the fewest first, then in reading order: up to five cells with one candidate, and up to five
    with one to three.

    Args:
        boards: int8 (B, 9, 9), 0 for empty cells.
        tried: Numbers of moves, the newest first and -1 for none, int32 (B, 10).
    """
    options = np.where(boards == 0, candidates(boards), 0).reshape(-1, NUM_CELLS)
    order = np.argsort(_PLACES[options], axis=1, kind="stable")[:, :_MOST_SHOWN]
    columns = order.tolist(), np.take_along_axis(options, order, axis=1).tolist(), tried.tolist()
    return [_hint_text(*row) for row in zip(*columns, strict=True)]


def candidates(boards: Any) -> np.ndarray:
    """Return the digits that row, column and box of each cell allow, as bits from digit 1 on, int32 (B, 9, 9)."""
    bits = (1 << boards.astype(np.int32)) >> 1
    merged = np.bitwise_or.reduce
    boxes = merged(merged(bits.reshape(-1, BOX, BOX, BOX, BOX), axis=4, keepdims=True), axis=2, keepdims=True)
    in_box = np.broadcast_to(boxes, (len(boards), BOX, BOX, BOX, BOX)).reshape(bits.shape)
    return _ALL & ~(merged(bits, axis=2, keepdims=True) | merged(bits, axis=1, keepdims=True) | in_box)


def _hint_text(cells: list[int], options: list[int], tried: list[int]) -> str:
    moves = [move_text(*unflattened(number)) for number in tried if number >= 0]
    few = [(cell, _DIGITS[option]) for cell, option in zip(cells, options, strict=True) if _is_few(option)]
    sure = [(cell, digits) for cell, digits in few if len(digits) == 1]
    lines = (
        (_TRIED, ", ".join(moves)),
        (_SURE, ", ".join(f"[{cell // SIZE + 1} {cell % SIZE + 1} {digits}]" for cell, digits in sure[:_MOST_HINTS])),
        (_FEW, " | ".join(f"({cell // SIZE + 1},{cell % SIZE + 1})->{digits}" for cell, digits in few[:_MOST_HINTS])),
    )
    return "".join(f"\n{label}{listed}" for label, listed in lines if listed)


def _is_few(options: int) -> bool:
    """Return whether there are one to three candidates; a filled cell has none, an empty one at least its solution."""
    return 0 < options.bit_count() <= _FEW_OPTIONS


def unflattened(number: int) -> tuple[int, int, int]:
    """Return row, column and digit of a move's number, 81 · row + 9 · column + digit, all from 0."""
    return number // NUM_CELLS, number // SIZE % SIZE, number % SIZE


def move_text(row: int, column: int, digit: int) -> str:
    """Return a move in the format of the system prompt."""
    return f"[{row + 1} {column + 1} {digit + 1}]"
