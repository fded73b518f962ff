"""What every server consists of, whatever it speaks: its settings, its socket, its guard and its workers."""
