"""The levels that memory-gym 1.0.2 makes for a seed, made on the host from the same random numbers, in the same order.

`jaxgym.levels.original` is the way in. A module a game says what the game draws; `draws` has the random numbers.
"""
