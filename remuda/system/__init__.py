"""Use the machine: disk, devices, memory, processes, signals, and text for its user."""
