"""The verbs on hand-made rows, and the bytes that they move."""

import pytest
import torch
from torch.overrides import TorchFunctionMode

from remuda.engines import Metered, Scan, Stacked
from remuda.tensors import trees

ROWS = {
    "w": torch.tensor([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]]),
    "count": torch.tensor([7, 8, 9]),
}
ENGINES = [Stacked(3, layout="loop"), Stacked(3, layout="vmap"), Metered(Stacked(3))]


@pytest.fixture(params=ENGINES, ids=["loop", "vmap", "metered"])
def engine(request):
    return request.param


def test_one_process_hosts_all_members(engine):
    assert engine.size == 3 and list(engine.members) == [0, 1, 2]


def test_map_runs_every_member(engine):
    total, twice = engine.map(
        lambda row, x: (row["w"].sum() + x, {"y": 2 * x}), ROWS, torch.tensor([1.0, 2.0, 3.0])
    )
    assert total.tolist() == [12, 24, 47] and twice["y"].tolist() == [2, 4, 6]


def test_map_of_a_scan_carries_the_state(engine):
    def step(state, x):
        return {"sum": state["sum"] + x}, state["sum"] * 10

    inputs = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])  # (members, steps)
    carry, outs = engine.map(Scan(step), {"sum": torch.zeros(3)}, inputs)
    assert carry["sum"].tolist() == [3, 7, 11]
    assert outs.tolist() == [[0, 10], [0, 30], [0, 50]]


def test_take_gives_each_member_one_row_or_several(engine):
    assert engine.take(ROWS, torch.tensor([2, 0, 1]))["count"].tolist() == [9, 7, 8]
    table = torch.tensor([[0, 1], [1, 2], [2, 0]])
    a, b, c = [1, 10], [2, 20], [4, 40]
    assert engine.take(ROWS, table)["w"].tolist() == [[a, b], [b, c], [c, a]]


def test_mean_weights_numbers_and_keeps_counters(engine):
    mean = engine.mean(ROWS, torch.tensor([1.0, 1.0, 2.0]))
    assert mean["w"].tolist() == [[2.75, 27.5]] * 3
    assert mean["count"].tolist() == [7, 8, 9]


def test_each_member_can_have_its_own_weights(engine):
    weights = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 3.0]])
    for dtype in (torch.float32, torch.float64):
        mean = engine.mean(ROWS, weights, dtype)
        assert torch.allclose(mean["w"], torch.tensor([[2.5, 25.0], [2.0, 20.0], [3.25, 32.5]]))
        assert mean["count"].tolist() == [7, 8, 9]


def test_the_number_of_operations_does_not_grow_with_the_members():
    """A compiler would need hours for a program that averages each of 1,000 members separately."""

    class Count(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    def num_calls(size):
        with Count() as count:
            Stacked(size).mean(torch.ones(size, 2), torch.eye(size), torch.float32)
        return count.calls

    assert num_calls(3) == num_calls(30)


@pytest.mark.parametrize("size", [3, 7, 10])
def test_averages_in_single_precision_do_not_drift(size):
    numbers = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    rows = numbers.expand(size, -1)
    for _ in range(5):
        rows = Stacked(size).mean(rows, torch.ones(size), torch.float32)
    ratios = rows[0].double() / numbers.double()
    assert abs(ratios - 1).max() < 2e-6 and abs(ratios.mean() - 1) < 2e-8


def test_scatter_sends_rows_and_gather_collects_them(engine):
    rows = engine.scatter(lambda server: {"x": server * torch.arange(3.0)}, torch.tensor(2.0))
    assert rows["x"].tolist() == [0, 2, 4]
    assert engine.gather(lambda server, got: server + got["x"].sum(), torch.tensor(2.0), rows) == 8


def test_verbs_leave_their_arguments_unchanged(engine):
    before = trees.map(torch.clone, ROWS)
    engine.mean(ROWS, torch.ones(3))["w"].zero_()
    engine.take(ROWS, torch.arange(3))["w"].zero_()
    engine.map(lambda row: {"w": row["w"] + 1}, ROWS)["w"].zero_()
    assert trees.equal(ROWS, before)


def test_a_draw_from_the_global_generator_is_refused_under_vmap():
    with pytest.raises(RuntimeError, match="random"):
        Stacked(2, layout="vmap").map(lambda x: x + torch.rand(()), torch.zeros(2))


def test_bytes_by_verb_and_direction():
    engine = Metered(Stacked(3))
    row = 2 * 4 + 8
    engine.take(ROWS, torch.tensor([1, 2, 2]))  # the last member keeps its own row
    engine.mean(ROWS, torch.ones(3))  # floats only
    rows = engine.scatter(lambda: {"x": torch.zeros(3, 5)})
    engine.gather(lambda server, got: server, torch.zeros(()), rows)
    assert engine.bytes == {
        ("take", "across"): 2 * row,
        ("mean", "up"): 3 * 8,
        ("mean", "down"): 3 * 8,
        ("scatter", "down"): 3 * 20,
        ("gather", "up"): 3 * 20,
    }
    engine.reset()
    engine.map(lambda row: row, ROWS)
    assert not engine.bytes


def test_seconds_and_calls_of_each_verb(monkeypatch):
    clock = iter([0.0, 1.0, 10.0, 12.0, 20.0, 24.0, 30.0, 38.0, 40.0, 56.0, 60.0, 92.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    engine = Metered(Stacked(3))
    engine.map(lambda row: row, ROWS)
    engine.take(ROWS, torch.arange(3))
    engine.mean(ROWS, torch.ones(3))
    rows = engine.scatter(lambda: torch.zeros(3, 5))
    engine.gather(lambda server, got: server, torch.zeros(()), rows)
    engine.map(lambda row: row, ROWS)
    assert engine.verbs == {"map": 33.0, "take": 2.0, "mean": 4.0, "scatter": 8.0, "gather": 16.0}
    assert engine.calls == {"map": 2, "take": 1, "mean": 1, "scatter": 1, "gather": 1}
    assert not engine.seconds
    engine.reset()
    assert not engine.verbs and not engine.calls


def test_a_loop_counts_the_verbs_of_all_its_steps():
    engine = Metered(Stacked(3))

    def step(engine, state, x):
        return engine.map(lambda a, b: a + b, state, x), torch.zeros(())

    state, _ = engine.loop(step, torch.zeros(3), torch.ones(4, 3))
    assert state.tolist() == [4, 4, 4] and engine.calls == {"map": 4} and engine.verbs["map"] > 0
