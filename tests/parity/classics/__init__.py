"""Replay recorded episodes of the classic memory tasks: `python -m tests.parity.classics FOLDER ...`.

The level that the original makes from the recorded seed is made again. Then it is played with the recorded actions, and
everything that the recording has is compared. Arithmetic has 64 bits, as in the originals, and rewards are rounded to
32 bits, as in jaxgym.

tests/data/classics/README.md describes the arrays of a recording.
"""
