"""Compare the results of a case with its golden file."""

import os

import pytest

from tests.golden.cases import golden

LOSS = 1e-4  # relative and absolute; rounding differs between processors
STATE = 1e-3  # relative; Adam turns gradients that are mostly rounding errors into full steps
EXACT = "REMUDA_GOLDEN_EXACT"  # 1: require identical bits, on the machine that wrote the files


def assert_golden(case: str, engine: str, found: dict) -> None:
    """Fail unless the summary equals the golden summary."""
    kept = golden(case.split("/")[0]).get(case, {}).get(engine)
    assert kept is not None, f"{case} has no golden results: run python -m tests.golden {case}"
    if os.environ.get(EXACT) == "1":
        assert found == kept
        return
    assert len(found["rounds"]) == len(kept["rounds"])
    for one, other in zip(found["rounds"], kept["rounds"], strict=True):
        assert (one["bytes"], one["traffic"]) == (other["bytes"], other["traffic"])
        assert one["metrics"].keys() == other["metrics"].keys()
        for name, values in other["metrics"].items():
            least = LOSS if name.endswith("_loss") else 0.0
            expected = pytest.approx(values, rel=LOSS, abs=least, nan_ok=True)
            assert one["metrics"][name] == expected, name
    assert found["state"] == pytest.approx(kept["state"], rel=STATE)
