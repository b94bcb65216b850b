"""Training: assemble a run, loop over its rounds, record it, survive failures."""
