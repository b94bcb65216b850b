"""A trained model: load it, sample it, score it, draw pictures."""
