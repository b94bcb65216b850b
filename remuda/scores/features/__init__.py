"""Feature extractors: the networks by which images are compared."""
