"""Run the command line with ``python -m remuda``."""

from remuda.cli import main

if __name__ == "__main__":
    main()
