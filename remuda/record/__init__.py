"""The run folder: what a run writes and what others read."""
