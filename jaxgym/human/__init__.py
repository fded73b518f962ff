"""Images and videos of episodes, and interactive play in a window or a terminal."""
