"""The environments, a folder for each family."""
