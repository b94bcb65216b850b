"""The machine: its disk, devices and memory."""
