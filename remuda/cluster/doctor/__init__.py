"""What is there, what would fail, and how fast ranks speak to each other."""

from collections.abc import Callable, Iterable

from remuda.cluster.doctor import machine, ranks
from remuda.cluster.doctor.findings import FAILS, Finding
from remuda.cluster.doctor.ranks import trial

__all__ = ["examine", "trial"]


def examine(num_ranks: int, tell: Callable[[str], None]) -> bool:
    """Tell every finding as soon as it is there; returns whether all that was asked for would work.

    That is training on one device, and on ranks if their number is given or a launcher or a batch job has several.
    """
    alone = _tell(machine.findings(), tell)
    together = _tell(ranks.findings(num_ranks), tell)
    return alone and (together or not ranks.are_asked_for(num_ranks))


def _tell(findings: Iterable[Finding], tell: Callable[[str], None]) -> bool:
    would_work = True
    for finding in findings:
        tell(str(finding))
        would_work = would_work and finding.state != FAILS
    return would_work
