"""The parts that all servers share: settings, socket and guard."""
