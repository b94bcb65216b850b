"""Choose where slow operations, such as downloads, report their progress.

By default, library calls print nothing. To show their progress, a program names a console:

    with shown_on(Console(stderr=True)):
        load(DataConfig(name="mnist"))
"""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

_consoles: list[Console] = []  # consoles of the open contexts, innermost last


def console() -> Console:
    """Return the console for progress; it prints nothing unless a program named one."""
    return _consoles[-1] if _consoles else Console(quiet=True)


@contextmanager
def shown_on(console: Console) -> Iterator[None]:
    """Show the progress of slow operations on a console, in all threads."""
    _consoles.append(console)
    try:
        yield
    finally:
        _consoles.pop()
