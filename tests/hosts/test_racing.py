"""Cut off a host during an asynchronous run: the members on the other hosts never wait for it.

`pytest -s` shows the largest pause between two turns before, while and after the host is cut off.
"""

import json
import time
from statistics import median

from remuda.record import Record
from tests.hosts.faults import TIMEOUT, Run, cut
from tests.mpi.killing import assert_complete
from tests.mpi.test_racing import SIZE, largest_gap

# Turns of a worker per round. A round must be shorter than the timeout on a slow machine too, and
# there must be enough of them that the run does not end before the host is cut off.
STEPS = 60
ROUNDS = 12
SETTINGS = [f"run.rounds={ROUNDS}", f"strategy.steps_per_round={STEPS}"]


def test_workers_continue_while_a_host_is_cut_off(hosts, tmp_path):
    """The round lasts until the host counts as lost, and has as many turns as there is time for."""
    run = Run(hosts, tmp_path / "run", "md-gan-async", settings=SETTINGS)
    run.wait_for_round(3)
    time.sleep(0.2)  # the next round has begun
    cut(run, "h3")
    status, printed, errors = run.end(run.grown[-1])
    assert (status, errors) == (0, ""), printed + errors
    assert "continuing without member 4" in printed
    assert_complete(run.folder, rounds=ROUNDS)
    assert Record.open(run.folder).config.run.lost == (4,)
    lines = (run.folder / "arrivals.jsonl").read_text().splitlines()
    rounds = {line["round"]: line for line in map(json.loads, lines)}
    gaps = {t: largest_gap(line["seconds"]) for t, line in rounds.items()}
    members = {t: [arrival[0] for arrival in line["arrivals"]] for t, line in rounds.items()}
    fateful = min(t for t, those in members.items() if 4 not in those[len(those) // 2 :])
    took = {t: line["seconds"][-1] for t, line in rounds.items()}
    others = sorted(gap for t, gap in gaps.items() if t not in (1, fateful))
    print(
        f"round {fateful} took {took[fateful]:.1f} s; largest pause {gaps[fateful] * 1e3:.0f} ms; "
        f"in other rounds at most {others[-1] * 1e3:.0f} ms"
    )
    assert took[fateful] > 0.8 * TIMEOUT
    # More turns than in a usual round, unless a slow machine needs longer than the timeout for one
    usual = median(took[t] for t in took if t != fateful)
    assert len(members[fateful]) > SIZE * STEPS or usual > 0.8 * TIMEOUT
    paces = {t: len(members[t]) / took[t] for t in took}
    assert paces[fateful] > median(paces.values()) / 2
    assert set(members[fateful][len(members[fateful]) // 2 :]) == {0, 1, 2, 3}
    assert gaps[fateful] < 1
    run.check_return("h3")
