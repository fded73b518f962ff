"""What people need: pictures and videos of episodes, and a window to play in."""
