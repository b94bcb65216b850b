"""Check whether training would work here, and measure how fast ranks exchange messages."""

from collections.abc import Callable, Iterable, Sequence

from remuda.cluster.doctor import hosts, machine, ranks
from remuda.cluster.doctor.findings import FAILS, Finding
from remuda.cluster.doctor.trials import trial
from remuda.system.text import listed

__all__ = ["examine", "trial"]


def examine(num_ranks: int, tell: Callable[[str], None], places: Sequence[hosts.Host] = ()) -> bool:
    """Report each finding as soon as it is known; return whether everything requested would work.

    Training on one device is always requested. Ranks are requested if ``num_ranks`` is above 0, if
    a launcher or a batch job provides more than one, or if ``places`` names their hosts.
    """
    device_works = _tell(machine.findings(), tell)
    if places:
        return _examine_hosts(places, tell) and device_works
    ranks_work = _tell(ranks.findings(num_ranks), tell)
    return device_works and (ranks_work or not ranks.are_asked_for(num_ranks))


def _examine_hosts(places: Sequence[hosts.Host], tell: Callable[[str], None]) -> bool:
    """Check each host, then start ranks on all hosts that would work."""
    left = [host for host, findings in hosts.examine(places) if _tell(findings, tell)]
    if left and len(left) < len(places):
        names = listed([host.name for host in left])
        tell(str(Finding(FAILS, "hosts", f"some would fail; the test continues on {names}")))
    number = sum(host.slots for host in left)
    return bool(left) and _tell(ranks.findings(number, left), tell) and len(left) == len(places)


def _tell(findings: Iterable[Finding], tell: Callable[[str], None]) -> bool:
    works = True
    for finding in findings:
        tell(str(finding))
        works = works and finding.state != FAILS
    return works
