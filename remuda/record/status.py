"""Check the content of status.json: the state of a run, and of its ranks."""

from datetime import datetime
from typing import Any

from remuda.record.files import is_number, is_whole, require


def parse_status(status: Any) -> dict[str, Any]:
    """Return the content; raise TypeError or ValueError if it is invalid."""
    if not isinstance(status, dict):
        raise TypeError("not a JSON object")
    for name in ("state", "why", "time"):
        require(status, name, lambda value: isinstance(value, str))
    require(status, "time", lambda value: datetime.fromisoformat(value).tzinfo is not None)
    require(status, "rounds", is_whole)
    require(status, "ranks", lambda value: isinstance(value, list) and len(value) > 0)
    for rank in status["ranks"]:
        _check_rank(rank)
    return status


def _check_rank(rank: Any) -> None:
    """Raise TypeError if an entry of ranks has an invalid field; older versions wrote fewer."""
    if not isinstance(rank, dict):
        raise TypeError("an entry of ranks is not a JSON object")
    for name in ("host", "pid", "born", "remark"):
        require(rank, name, lambda value: value is not None)
    for name in {"host", "state", "contact", "remark", "device"} & rank.keys():
        require(rank, name, lambda value: isinstance(value, str))
    for name in {"pid", "rank", "round"} & rank.keys():
        require(rank, name, is_whole)
    for name in {"speed", "used", "silent"} & rank.keys():
        require(rank, name, lambda value: value is None or is_number(value))
    if "members" in rank:
        require(rank, "members", lambda ids: isinstance(ids, list) and all(map(is_whole, ids)))
