"""Rewrite the golden files with the current results of training.

python -m tests.golden                     # all cases, on stacked and on two ranks
python -m tests.golden md-gan/carry        # only these cases
python -m tests.golden fl-gan cellular     # only the cases of these strategies

Run this in the repository's root, and only when a commit changes results on purpose. Explain the
change in the commit message. Without mpi4py or mpirun, the results of two ranks are not updated. On
the machine that wrote the files, set REMUDA_GOLDEN_EXACT=1 to require bit-identical results.
"""

import sys
import tempfile
from pathlib import Path

from tests.golden.cases import (
    CASES,
    GROUPS,
    LAYOUTS,
    ON_RANKS,
    RANKS,
    golden,
    has_ranks,
    keep,
    run_stacked,
    summary,
)


def main(names: list[str]) -> None:
    """Run the named cases on every engine and write their results."""
    unknown = set(names) - set(CASES) - set(GROUPS)
    if unknown:
        sys.exit(f"unknown case: {', '.join(sorted(unknown))}; choose from {', '.join(CASES)}")
    chosen = [case for case in CASES if not names or case in names or case.split("/")[0] in names]
    with tempfile.TemporaryDirectory() as folder:
        found = {case: _stacked(case, Path(folder)) for case in chosen}
        on_ranks = [case for case in chosen if case in ON_RANKS]
        for case, result in _on_ranks(on_ranks, Path(folder) / RANKS).items():
            found[case][RANKS] = result
    for strategy in {case.split("/")[0] for case in chosen}:
        before = golden(strategy)  # cases that no longer exist are dropped
        cases = [case for case in CASES if case.split("/")[0] == strategy]
        keep(strategy, {case: before.get(case, {}) | found.get(case, {}) for case in cases})


def _stacked(case: str, folder: Path) -> dict:
    print(case, flush=True)
    return {layout: run_stacked(case, layout, folder / layout / case) for layout in LAYOUTS}


def _on_ranks(cases: list[str], folder: Path) -> dict:
    """Run all given cases on two ranks, in one job."""
    if not cases:
        return {}
    if not has_ranks():
        print("mpi4py or mpirun is missing: the results of two ranks are not updated")
        return {}
    from tests.mpi.starting import on_ranks

    print(f"running {len(cases)} cases on two ranks", flush=True)
    result = on_ranks(2, "tests.golden.ranks", folder, *cases, timeout=600)
    if result.returncode:
        sys.exit(result.stderr)
    return {case: summary(folder / case) for case in cases}


if __name__ == "__main__":
    main(sys.argv[1:])
