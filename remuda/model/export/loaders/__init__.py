"""Files that an export copies: they run without remuda, so they do not import it."""
