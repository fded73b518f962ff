"""What every server consists of, whatever it speaks: its settings, its socket and its guard."""
