"""Report the results of a trial: the MPI library, the hosts, and the speed of messages."""

from collections.abc import Iterator
from typing import Any

from remuda.cluster.doctor import probe
from remuda.cluster.doctor.findings import FAILS, MISSING, OK, Finding
from remuda.cluster.doctor.links import links


def library(answer: dict[str, Any]) -> Iterator[Finding]:
    """Report the features of the MPI library."""
    name = answer["library"]
    yield Finding(OK, "MPI", f"{name}, MPI {answer['standard']}")
    yield _threads(answer["threads"])
    yield _ulfm(answer["ulfm"], name)
    yield _cuda_aware(answer)


def _threads(level: str) -> Finding:
    if level != "single":
        return Finding(OK, "threads", f"level {level}")
    text = "the library allows only one thread: use an MPI that was built with threads"
    return Finding(MISSING, "threads", text)


def _ulfm(state: str, library: str) -> Finding:
    if state == "on":
        return Finding(OK, "ULFM", "on: a run can survive the loss of ranks")
    if state == "off":
        text = "off in these ranks: start them with mpirun --with-ft ulfm, as remuda does"
    else:
        text = f"{library} lacks it, so a run stops when it loses a rank, and you must resume it: "
        text += "use Open MPI 5"
    return Finding(MISSING, "ULFM", text)


def _cuda_aware(answer: dict[str, Any]) -> Finding:
    name = "CUDA-aware"
    if all(rank["device"] == "cpu" for rank in answer["ranks"]):
        return Finding(OK, name, "not needed: ranks have no GPU")
    if answer["cuda"]:
        text = "yes: --set engine.cuda_aware=true sends rows directly from a GPU's memory"
        return Finding(OK, name, text)
    state = "no" if answer["cuda"] is False else "unknown"
    text = f"{state}: leave engine.cuda_aware=false; rows travel through the host's memory"
    return Finding(MISSING, name, text)


def ranks(answer: dict[str, Any]) -> Iterator[Finding]:
    """Report the ranks and their hosts, any differences between them, and the message speed."""
    facts = answer["ranks"]
    started = " joined"
    if "startup" in answer:
        started = f" started and joined in {answer['startup']:.1f} s"
    yield Finding(OK, "ranks", f"{len(facts)}{started}")
    for host in dict.fromkeys(rank["host"] for rank in facts):
        here = {number: rank for number, rank in enumerate(facts) if rank["host"] == host}
        yield _host(host, here)
    yield from _differences(facts)
    yield from links(answer["links"])
    if "sum" in answer:
        size = probe.SUMMED_BYTES / 1e6
        text = f"{1e3 * answer['sum']:.1f} ms for {size:.0f} MB over {len(facts)} ranks"
        yield Finding(OK, "allreduce", text)


def _host(host: str, ranks: dict[int, dict[str, Any]]) -> Finding:
    cores = sorted({rank["cores"] for rank in ranks.values()})
    devices = ", ".join(dict.fromkeys(rank["device"] for rank in ranks.values()))
    text = f"{host}: ranks {_ranges(list(ranks))}; cores for each: {_ranges(cores)}; on {devices}"
    if any(rank["num_usable"] < rank["num_sharing"] for rank in ranks.values()):
        text += (
            "; these ranks share cores, which is slow: request more cores, "
            "or let the launcher bind ranks to different cores"
        )
    return Finding(OK, "host", text)


def _ranges(numbers: list[int]) -> str:
    """Return ascending numbers as ranges, such as ``0-3, 8``."""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _differences(facts: list[dict[str, Any]]) -> Iterator[Finding]:
    """Report the first rank whose versions, or whose folder, differ from those of rank 0."""
    for number, rank in enumerate(facts):
        there, here = rank["versions"], facts[0]["versions"]
        if there != here:
            text = f"rank {number} has {there}, but rank 0 has {here}: "
            text += "start all ranks from one environment"
            yield Finding(FAILS, "versions", text)
            break
    for number, rank in enumerate(facts):
        if rank["folder"] != facts[0]["folder"]:
            text = f"rank {number} is not in rank 0's folder {facts[0]['folder'][0]}: "
            text += "start in a folder that all hosts share"
            yield Finding(FAILS, "folder", text)
            break
