"""Check what training needs: print what is installed, what would fail, and how fast ranks are."""

from collections.abc import Callable, Iterable

from remuda.cluster.doctor import machine, ranks
from remuda.cluster.doctor.findings import FAILS, Finding
from remuda.cluster.doctor.trials import trial

__all__ = ["examine", "trial"]


def examine(num_ranks: int, tell: Callable[[str], None]) -> bool:
    """Tell each finding as soon as it is known; return whether everything requested would work.

    Training on one device is always requested. Ranks are requested if their number is given, or if
    a launcher or a batch job has several.
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
