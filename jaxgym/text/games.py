"""The rows of the table of environments that have words."""
