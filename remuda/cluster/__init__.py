"""Start processes on one or more hosts, watch them while they train, and check what they need."""
