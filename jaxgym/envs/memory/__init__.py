"""Memory Gym: games that an agent solves by remembering (Pleines et al., ICLR 2023 and JMLR 26(6), 2025)."""
