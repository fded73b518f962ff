"""Tokenizer with known words and bytes for everything else, so that every string can be decoded exactly."""

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Self

PAD, END = 0, 1
"""Tokens for padding and for the end of a reply."""

_SPECIAL = 2
_BYTES = 256
_KNOWN_LINES = 1 << 16

# A word with the blank before it; one sign or capital with the blank before it; a line end; a blank.
_PIECE = re.compile(r" ?[A-Z]?[a-z]+| ?</| ?[^\s]|\s")


class Tokenizer:
    """Tokenizer with one token per known word; unknown words are encoded as bytes.

    A word is a run of lower-case letters that may start with a capital. Digits, single capitals and signs are tokens of
    their own, each with the blank before it, so that every cell of a board has the same number of tokens.

    Attributes:
        words: Known words, in the order of their tokens.
        size: Number of tokens.
    """

    def __init__(self, words: Sequence[str]):
        self.words = tuple(words)
        self.size = _SPECIAL + _BYTES + len(self.words)
        self._tokens = {word: _SPECIAL + _BYTES + place for place, word in enumerate(self.words)}
        # The texts of one game consist of a few thousand different lines.
        self._line = functools.lru_cache(_KNOWN_LINES)(self._encode_line)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        """Return a tokenizer with the words of some texts."""
        return cls(sorted({word for text in texts for word in _PIECE.findall(text)}))

    def encode(self, text: str) -> list[int]:
        """Return the tokens of any string that UTF-8 can encode."""
        return [token for line in text.splitlines(keepends=True) for token in self._line(line)]

    def _encode_line(self, line: str) -> tuple[int, ...]:
        tokens = list[int]()
        for word in _PIECE.findall(line):
            token = self._tokens.get(word)
            tokens += [_SPECIAL + byte for byte in word.encode()] if token is None else [token]
        return tuple(tokens)

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens up to the first `END`; invalid UTF-8 is decoded as `�`."""
        parts = list[bytes]()
        for token in tokens:
            if token == END:
                break
            if token >= _SPECIAL + _BYTES:
                parts.append(self.words[token - _SPECIAL - _BYTES].encode())
            elif token >= _SPECIAL:
                parts.append(bytes([token - _SPECIAL]))
        return b"".join(parts).decode(errors="replace")
