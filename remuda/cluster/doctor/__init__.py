"""Check whether training would work here, and measure how fast ranks exchange messages."""

from collections.abc import Callable, Iterable

from remuda.cluster.doctor import machine, ranks
from remuda.cluster.doctor.findings import FAILS, Finding
from remuda.cluster.doctor.trials import trial

__all__ = ["examine", "trial"]


def examine(num_ranks: int, tell: Callable[[str], None]) -> bool:
    """Report each finding as soon as it is known; return whether everything requested would work.

    Training on one device is always requested. Ranks are requested if ``num_ranks`` is above 0, or
    if a launcher or a batch job provides more than one.
    """
    device_works = _tell(machine.findings(), tell)
    ranks_work = _tell(ranks.findings(num_ranks), tell)
    return device_works and (ranks_work or not ranks.are_asked_for(num_ranks))


def _tell(findings: Iterable[Finding], tell: Callable[[str], None]) -> bool:
    works = True
    for finding in findings:
        tell(str(finding))
        works = works and finding.state != FAILS
    return works
