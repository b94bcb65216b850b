"""Define the version of remuda."""

__version__ = "0.2.0"
