"""Define the version of remuda."""

__version__ = "0.1.0"
