"""Scaling: the planned runs, their summary, the cost model by hand, and one real experiment."""

import json
import math
import re
from dataclasses import replace

import pytest
import torch

from remuda import config as configs
from remuda.data import load
from remuda.engines import Metered, SingleProcess
from remuda.engines.mpi.engine import MPIEngine
from remuda.engines.mpi.spans import deliver, spans
from remuda.errors import UserError
from remuda.experiments.scaling import Scaling, averagings_of, draw, read_ranks
from remuda.experiments.scaling.measure import Measured, measure, summary
from remuda.experiments.scaling.model import (
    Costs,
    Link,
    Prediction,
    costs_of,
    crossing,
    predict,
    predict_all,
)
from remuda.experiments.scaling.plan import Case, cases, grow
from remuda.population.topology import neighbourhoods
from remuda.record import Reader
from remuda.strategies.facts import Averaging
from remuda.tensors import trees
from remuda.training.assemble import assemble
from tests.cli.test_cli import in_process
from tests.contract.threads import run_ranks


@pytest.fixture
def tiny_config(tiny):
    return configs.from_dict(tiny)


# The planned runs


def test_ranks_are_read():
    assert read_ranks("4, 1,2,2") == [1, 2, 4]
    for text in ("1,two", "0,1", "", "1;2", "-1,1"):
        with pytest.raises(UserError, match="such as 1,2,4"):
            read_ranks(text)
    with pytest.raises(UserError, match=r"lacks 1.*--ranks 1,2,4"):
        read_ranks("2,4")


def test_strong_keeps_the_members_and_weak_multiplies_them(tiny_config):
    strong = cases(tiny_config, [1, 3], False, 2, 10)
    assert [(case.ranks, case.members) for case in strong] == [(1, 3), (3, 3)]
    weak = cases(tiny_config, [1, 3], True, 2, 10)
    found = [(case.ranks, case.members, case.config.run.members) for case in weak]
    assert found == [(1, 3, 3), (3, 9, 9)]
    natural = replace(tiny_config, run=replace(tiny_config.run, members=0))
    assert [case.members for case in cases(natural, [1, 4], True, 2, 10)] == [1, 4], (
        "one class per rank, as in the papers"
    )


def test_only_rounds_are_timed(tiny_config):
    config = cases(tiny_config, [2], False, 7, 10)[0].config
    assert config.engine.name == "mpi" and config.engine.ranks == 2 and config.engine.threads == 1
    assert config.run.rounds == config.run.sample_every == 7
    assert config.run.checkpoint_every == 0 and config.run.checkpoint_minutes == math.inf
    assert config.scores.every == 0
    two = replace(tiny_config, engine=replace(tiny_config.engine, threads=2))
    assert cases(two, [2], False, 7, 10)[0].config.engine.threads == 2


def test_a_grid_grows_in_height(tiny):
    values = configs.override(
        tiny, ["strategy.name=cellular", "strategy.height=3", "run.members=0"]
    )
    config = configs.from_dict(values)
    assert grow(config, 4).strategy.grid == (12, 2)
    assert [case.members for case in cases(config, [1, 2], True, 2, 10)] == [6, 12]


@pytest.mark.parametrize(
    ("settings", "ranks", "weak", "rounds", "words"),
    [
        ([], [1, 4], False, 2, "4 ranks are more than the 3 members"),
        ([], [1, 4], True, 2, "run.members=12 is more than the data's 10 classes"),
        ([], [1, 2], False, 1, "--rounds must be at least 2"),
        (
            ["strategy.name=standalone", "run.members=0"],
            [1, 2],
            True,
            2,
            "standalone trains one member",
        ),
        (["strategy.steps_per_round=0"], [1, 2], True, 2, "--set strategy.steps_per_round=50"),
    ],
)
def test_impossible_runs_are_refused(tiny, settings, ranks, weak, rounds, words):
    config = configs.from_dict(configs.override(tiny, settings))
    with pytest.raises(UserError, match=re.escape(words)):
        cases(config, ranks, weak, rounds, 10)


# The summary


def line(seconds, scatter, take):
    calls = {"map": 2, "scatter": 10} | ({"take": 1} if take else {})
    traffic = {"scatter down": 800} | ({"take across": take} if take else {})
    return {
        "seconds": seconds,
        "verbs": {"map": 1.0, "scatter": scatter},
        "calls": calls,
        "traffic": traffic,
        "round": 3,
        "images": 3 * 4 * 5 * 4,  # four members, five batches of four images
    }


def test_first_rounds_are_left_out(tiny_config):
    start = line(60.0, 9.0, 0)
    runs = [
        [start, line(3.0, 0.1, 0), line(5.0, 0.3, 400)],
        [start, line(4.0, 0.2, 0), line(9.0, 0.6, 400)],
    ]
    found = summary(Case(2, 4, tiny_config), runs)
    assert found.seconds == [3.0, 5.0, 4.0, 9.0] and found.median == 4.5 and found.best == 3.0
    assert found.verbs == {"map": 1.0, "scatter": 0.25}
    assert found.calls == {"map": 2, "scatter": 10, "take": 0.5}
    assert found.traffic == {"scatter down": 800, "take across": 200} and found.bytes == 1000
    assert found.updates == 5


def times(ranks, members, *seconds, **verbs):
    return Measured(ranks, members, list(seconds), verbs, {"map": 1}, {}, 10)


def made(tiny_config, weak, *measured):
    return Scaling("toy", weak, tiny_config, list(measured), Link(1e-3, 1e6), 0.5)


def test_speedup_and_efficiency(tiny_config):
    one_rank, both = times(1, 3, 6.0, 8.0, 10.0, map=7.5), times(2, 3, 5.0, 4.0, 9.0, map=3.0)
    strong = made(tiny_config, False, one_rank, both)
    times_of = ["s per round", "best", "speed-up", "best", "efficiency", "best", "model"]
    expected = ["ranks", "members", *times_of, "map", "rest", "MB per round"]
    assert strong.header() == expected
    first, second = strong.rows()
    cells = "1 3 8.0000 6.0000 1.00 1.00 100.0% 100.0% 8.0000 7.5000 0.5000 0.00"
    assert first == cells.split()
    # Medians 8 / 5, best 6 / 4. The model: two of three members, and 1 + 2 messages at the end.
    assert second[2:8] == ["5.0000", "4.0000", "1.60", "1.50", "80.0%", "75.0%"]
    assert second[8] == f"{8 * 2 / 3 + 3e-3:.4f}"
    weak = made(tiny_config, True, one_rank, times(2, 6, 10.0, map=9.0))
    assert weak.rows()[1][4:7] == ["1.60", "1.20", "80.0%"]


def test_predictions_for_more_ranks(tiny_config):
    one_rank = times(1, 3, 6.0)
    assert [each.ranks for each in made(tiny_config, False, one_rank).predicted()] == [3], (
        "no more ranks than members"
    )
    assert not made(tiny_config, False, one_rank, times(3, 3, 2.0)).predicted()
    weak = made(tiny_config, True, one_rank, times(10, 30, 6.5))
    assert [(each.ranks, each.members) for each in weak.predicted()] == [
        (30, 90),
        (100, 300),
        (300, 900),
        (1000, 3000),
    ]
    # 999 losses to collect, 2 x 10 steps to agree, 1 ms each, and three members of 2 s.
    speedup = f"{6000 / 7.019:.2f}"
    assert weak.predicted_rows()[-1] == ["1,000", "3,000", "7.0190", speedup, "85.5%", "14.5%"]
    assert len(weak.predicted_header()) == 6


def test_notes(tiny, tiny_config):
    one_rank = times(1, 3, 6.0, loop=5.0)
    text = " ".join(made(tiny_config, False, one_rank).notes())
    assert "1000.0 µs per message, 1 MB/s" in text
    assert "Load of this machine before the first run: 0.5" in text
    assert "engine.layout=loop" in text and "cellular paper" not in text
    cells = configs.from_dict(configs.override(tiny, ["strategy.name=cellular", "run.members=0"]))
    text = " ".join(replace(made(cells, False, times(1, 4, 1.0)), load=None).notes())
    assert "8.53 on 5 cores (2x2), 13.65 on 10 cores (3x3), 15.17 on 17 cores (4x4)" in text
    assert "Load" not in text


@pytest.mark.parametrize("weak", [False, True])
def test_the_figure_and_the_file(tiny, tmp_path, weak):
    config = configs.from_dict(configs.override(tiny, ["strategy.name=cellular", "run.members=0"]))
    two_ranks = times(2, 8, 7.0, map=3.0) if weak else times(2, 4, 3.5, map=3.0)
    scaling = made(config, weak, times(1, 4, 6.0, map=5.0), two_ranks)
    draw(scaling, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    scaling.write(tmp_path / "a.json")
    values = json.loads((tmp_path / "a.json").read_text())
    assert values["kind"] == scaling.kind and values["link"] == {
        "latency": 1e-3,
        "bandwidth": 1e6,
        "adding": 0.0,
    }
    assert [each["median"] for each in values["measured"]] == [6.0, two_ranks.median]
    assert values["predicted"][0]["seconds"] == 6.0
    assert values["predicted"][-1]["ranks"] == (1000 if weak else 4)


# The cost model


def test_rows_that_cross_to_the_busiest_rank_match_the_delivery():
    swap = torch.tensor([[1], [0], [5], [2], [3], [4]])
    assert crossing(swap, 1) == (0, 0)
    assert crossing(swap, 2) == (1, 1)  # 2 takes from 5; 3 takes from 2
    assert crossing(swap, 6) == (1, 1)
    torus = neighbourhoods(4, 4, "von-neumann")
    assert crossing(torus, 16) == (4, 4)
    assert crossing(torus, 4) == (2, 8)  # one row of the grid per rank: the rows above and below
    for table, ranks in ((swap, 4), (torus, 3), (torus, 5)):
        hosts = spans(len(table), ranks)
        plans = [deliver(table, hosts, rank) for rank in range(ranks)]
        foreign = [
            {other: part for other, part in plan.incoming.items() if other != rank}
            for rank, plan in enumerate(plans)
        ]
        rows = [sum(part.stop - part.start for part in parts.values()) for parts in foreign]
        assert crossing(table, ranks) == (max(map(len, foreign)), max(rows))


def test_costs_come_from_the_run_on_one_rank():
    one_rank = Measured(
        1,
        4,
        [10.0, 11.0, 12.0],
        verbs={"map": 7.0, "scatter": 1.0, "gather": 2.0, "take": 0.5},
        calls={"map": 20, "scatter": 10, "gather": 10, "take": 0.5},
        traffic={"scatter down": 800, "gather up": 400, "mean down": 40, "take across": 60},
        updates=10,
    )
    # Three rows come from other members.
    costs = costs_of(one_rank, torch.tensor([[1], [0], [3], [3]]))
    assert costs.member == (11.0 - 3.0) / 4 and costs.server == 3.0
    assert costs.calls == one_rank.calls
    assert costs.row_bytes == {"scatter": 200, "gather": 100, "mean": 20, "take": 20}


COSTS = Costs(
    member=2.0,
    server=3.0,
    calls={"map": 1, "scatter": 10, "gather": 10, "take": 0.5, "mean": 4},
    row_bytes={"scatter": 200, "gather": 100, "take": 20, "mean": 30},
)


def test_a_prediction_by_hand():
    swap, link = torch.tensor([[1], [2], [3], [4], [0]]), Link(latency=0.01, bandwidth=1000.0)
    assert predict(COSTS, link, 1, swap).seconds == 5 * 2.0 + 3.0
    # Two, two and one member; rank 0 keeps two of five rows.
    found = predict(COSTS, link, 3, swap)
    assert found.work == 2 * 2.0 + 3.0
    assert found.messages == pytest.approx(
        {
            "scatter": 10 * 2 * 0.01 + 3 * 200 / 1000,
            "gather": 10 * 2 * 0.01 + 3 * 100 / 1000,
            "take": 0.5 * 1 * 0.01 + 1 * 20 / 1000,
            "mean": 4 * 4 * 0.01 + 2 * 2 / 3 * 30 / 1000,  # 2 x 2 steps; two thirds each way
            "end": (2 + 4) * 0.01,
        }
    )
    assert found.seconds == pytest.approx(7.0 + sum(found.messages.values()))


def test_sums_may_be_slower_than_other_messages():
    swap, link = torch.tensor([[1], [2], [3], [4], [0]]), Link(0.0, bandwidth=1000.0, adding=200.0)
    messages = predict(COSTS, link, 5, swap).messages
    assert messages["mean"] == pytest.approx(2 * 4 / 5 * 30 / 200)
    assert messages["take"] == pytest.approx(20 / 1000)
    slow = replace(link, bandwidth=10.0)
    assert predict(COSTS, slow, 5, swap).messages["mean"] == pytest.approx(2 * 4 / 5 * 30 / 10)


def test_members_that_average_more_or_less_by_hand():
    """On one rank, a quarter of a member's 2 s are spent to average, two times in each update."""
    own = Averaging(calls=2, bytes=10)  # COSTS has four calls, so a round has two updates
    more = COSTS.averaging(own, Averaging(calls=6, bytes=30), 2, 0.5)
    assert more.member == 3.0 and more.calls["mean"] == 12 and more.row_bytes["mean"] == 60
    same = COSTS.averaging(own, own, 2, 0.5)
    assert same.member == 2.0 and same.calls == COSTS.calls and same.row_bytes["mean"] == 20
    never = COSTS.averaging(own, Averaging(0, 0), 2, 0.5)
    assert never.member == 1.5
    assert never.row_bytes["take"] == 20, "other verbs stay the same"
    swap, link = torch.tensor([[1], [2], [3], [4], [0]]), Link(latency=0.01, bandwidth=1000.0)
    messages = predict(more, link, 5, swap).messages
    # Two times three steps, and four fifths of the bytes each way.
    assert messages["mean"] == pytest.approx(12 * 6 * 0.01 + 2 * 4 / 5 * 60 / 1000)
    assert "mean" not in predict(never, link, 5, swap).messages


def test_members_that_average_rarely_also_average_at_the_end_of_a_round():
    own = Averaging(calls=0.1, bytes=5)
    costs = replace(COSTS, calls={"mean": 1}, row_bytes={"mean": 50})  # a round has four updates
    same = costs.averaging(own, own, 4, 0.5)
    assert same == costs
    always = costs.averaging(own, Averaging(calls=2, bytes=10), 4, 0.5)
    assert always.calls["mean"] == 8 and always.row_bytes["mean"] == 40
    assert Averaging(0.1, 5).in_round(41) == Averaging(5, 250)


@pytest.mark.parametrize("every", [1, 2])
def test_shared_layers_send_the_predicted_bytes(tiny, every):
    resnet = ["networks.name=resnet", "networks.width=4", "networks.discriminator_width=2"]
    shared = [
        'strategy.shared_generator=["body", "normalisation"]',
        'strategy.shared_discriminator=["input", "body"]',
        f"strategy.share_every={every}",
    ]
    steps = ["strategy.discriminator_steps=2", "strategy.steps_per_round=4", "strategy.ema=0.9"]
    more = ["strategy.loss=hinge", "strategy.lipschitz=spectral", *steps]
    config = configs.from_dict(configs.override(tiny, [*resnet, *shared, *more]))
    herd = assemble(config)
    batches = herd.batches.draw(0, herd.num_batches)

    def train(communicator):
        engine = MPIEngine(communicator, 3)
        metered, members = Metered(engine), list(engine.members)
        state = herd.strategy.init(herd.context, engine)
        real = trees.map(lambda leaf: leaf[members], batches)
        herd.strategy.round(herd.context, metered, state, real, 1)
        return metered.calls["mean"], engine.sent["mean"]

    averaging = herd.strategy.averaging(herd.context)
    found, _ = run_ranks(2, train)
    assert found == [(4 * averaging.calls, 4 * averaging.bytes)] * 2 and averaging.bytes > 0
    assert train(SingleProcess())[1] == 0, "one rank sends nothing"
    data = load(config.data)
    own, others = averagings_of(config, data)
    assert own == averaging and list(others) == ["never", "every update", "every 10 updates"]
    assert [each.calls for each in others.values()] == [0, 3, 0.1]
    assert averagings_of(configs.from_dict(tiny), data) == (None, {}), "independent members"


def test_averages_are_compared(tiny_config, tmp_path):
    # Two updates of the discriminator and one of the generator; ten steps in a round.
    one_rank = Measured(1, 1, [1.0], {"mean": 0.1}, {"mean": 30}, {"mean down": 6e6}, 10)
    own, one_class = Averaging(3, 600e3), replace(tiny_config.run, members=1)
    scaling = Scaling(
        "toy",
        True,
        replace(tiny_config, run=one_class),
        [one_rank],
        Link(1e-3, 1e9),
        0.5,
        averaging=own,
        other_averagings={"never": Averaging(0, 0), "every update": own},
    )
    assert scaling.compared_header()[2:] == ["averaged never", "averaged every update"]
    # To agree on the end: 99 + 2 x 7 messages. To average: 30 calls of 14 steps, and 12 MB.
    never, always = 0.9 + 0.113, 1.0 + 0.113 + 0.42 + 0.99 * 0.012
    cells = [f"{never:.4f} ({0.113 / never:.1%})", f"{always:.4f} ({1 - 1 / always:.1%})"]
    rows = {row[0]: row for row in scaling.compared_rows()}
    assert rows["100"] == ["100", "100", *cells]
    assert scaling.predicted_rows()[2][2] == f"{always:.4f}", "single precision: 6 MB each way"
    scaling.write(tmp_path / "a.json")
    values = json.loads((tmp_path / "a.json").read_text())["compared"]
    assert values["every update"][-1]["ranks"] == 1000
    assert not replace(scaling, other_averagings={}).compared_rows()
    slow = replace(scaling, other_link=Link(1e-3, 1e6))
    assert float(slow.compared_rows()[2][3].split()[0]) > 12, "12 MB over the other link"


def test_links_are_read():
    # 100 Mbit/s are 12.5 MB/s, of which 1448 bytes of 1538 carry data.
    assert Link.read("100mbit") == Link(1e-4, pytest.approx(12.5e6 * 1448 / 1538))
    assert Link.read("2.5Gbit,0.2ms") == pytest.approx(Link(2e-4, 312.5e6 * 1448 / 1538))
    assert Link.read("800kbit,50us").latency == pytest.approx(5e-5)
    for text in ("100", "fast", "0mbit", "-1mbit", "100mbit,2", "100mbit 0.2ms"):
        with pytest.raises(UserError, match=r"--link .*100mbit,0\.2ms"):
            Link.read(text)


def test_measured_rounds_over_other_links_by_hand():
    """Rounds of 9 s, of which the messages take 1.3 s, would take 7.7 s plus 13 s."""
    here, there = Prediction(3, 5, 4.0, {"scatter": 1.3}), Prediction(3, 5, 4.0, {"scatter": 13.0})
    assert there.after(9.0, here) == Prediction(3, 5, 7.7, {"scatter": 13.0})
    assert there.after(1.0, here).seconds == 13.0, "no negative time of work"


def test_another_link_adds_predictions_for_the_measured_ranks(tiny, tmp_path):
    values = configs.override(tiny, ["strategy.name=md-gan", "strategy.swap_every=0"])
    # Three members: 6 kB down and 3 kB up in one iteration; two of three rows cross a link.
    one_rank = Measured(
        1,
        3,
        [3.0],
        {"scatter": 0.2, "gather": 0.1},
        {"scatter": 1, "gather": 1},
        {"scatter down": 6000, "gather up": 3000},
        1,
    )
    fast, slow = Link(0.0, 1e6), Link(0.0, 1e3)
    three = replace(one_rank, ranks=3, seconds=[2.0])
    scaling = Scaling("toy", False, configs.from_dict(values), [one_rank, three], fast, 0.5)
    assert not scaling.predicted()
    scaling = replace(scaling, other_link=slow)
    (found,) = scaling.predicted()
    assert found.ranks == 3 and found.work == pytest.approx(2.0 - 0.006)
    assert found.messages == pytest.approx({"scatter": 4.0, "gather": 2.0, "end": 0.0})
    assert scaling.rows()[1][8] == f"{0.9 + 0.3 + 0.006:.4f}", "the model of the measured link"
    assert "0.0 µs per message and 0.0 MB/s between ranks" in " ".join(scaling.notes())
    scaling.write(tmp_path / "a.json")
    values = json.loads((tmp_path / "a.json").read_text())
    assert values["other_link"] == {"latency": 0.0, "bandwidth": 1e3, "adding": 0.0}
    assert values["predicted"][-1]["seconds"] == pytest.approx(7.994)
    # Without a run on three ranks, the prediction uses the work of one rank.
    only = replace(scaling, measured=[one_rank])
    assert only.predicted()[0].seconds == pytest.approx(0.9 + 0.3 + 6.0)


def test_predictions_of_a_grid_that_grows(tiny):
    config = configs.from_dict(
        configs.override(tiny, ["strategy.name=cellular", "strategy.height=3", "run.members=0"])
    )
    assert torch.equal(config.strategy.exchange_table(6, 0), neighbourhoods(3, 2, "von-neumann"))
    one_rank = Measured(1, 6, [6.0], {}, {"take": 2}, {"take across": 6 * 3 * 10.0}, 1)
    ten = predict_all(config, one_rank, Link(0.001, 1e6), [1, 10], True)[1]
    # Three rows of two cells per rank: the rows above and below come from two other ranks.
    assert ten.members == 60 and ten.work == 6.0
    assert ten.messages == pytest.approx(
        {"take": 2 * 2 * 0.001 + 4 * 10 / 1e6, "end": (9 + 8) * 0.001}
    )


def test_off_a_grid_members_exchange_by_a_derangement(tiny_config):
    table = tiny_config.strategy.exchange_table(7, tiny_config.run.seed)[:, 0]
    assert sorted(table.tolist()) == list(range(7)) and not (table == torch.arange(7)).any()


# A real experiment


@pytest.mark.soak
def test_an_experiment_on_one_and_two_ranks(tiny, tmp_path, capsys, monkeypatch):
    pytest.importorskip("mpi4py", reason="ranks need mpi4py")
    (tmp_path / "small.toml").write_text(configs.to_toml(configs.from_dict(tiny)))
    flags = ["--ranks", "1,2", "--repeats", "1", "--rounds", "3", "--out"]
    command = ("scaling", tmp_path / "small.toml", *flags, tmp_path / "out")
    status, complaints = in_process(*command)
    assert status == 0, complaints
    printed = capsys.readouterr().out
    for words in ("3 members on 2 ranks", "predicted, not measured", "efficiency"):
        assert words in printed
    values = json.loads((tmp_path / "out" / "scaling.json").read_text())
    found = [(each["ranks"], each["members"], len(each["seconds"])) for each in values["measured"]]
    assert found == [(1, 3, 2), (2, 3, 2)]
    assert 0 < values["link"]["latency"] < 1 and values["link"]["bandwidth"] > 1e6
    assert 1e5 < values["link"]["adding"] < 1e12
    assert values["load_before"] is not None
    for line in Reader.open(tmp_path / "out" / "2-ranks-1").rounds():
        assert line["calls"] == {"map": 2} and 0 < line["verbs"]["map"] < line["seconds"]

    monkeypatch.setattr("remuda.experiments.scaling.measure_link", lambda ranks: Link(1e-5, 1e9))
    assert in_process(*command)[0] == 0
    again = json.loads((tmp_path / "out" / "scaling.json").read_text())
    assert again["measured"] == values["measured"] and again["load_before"] is None
    status, complaints = in_process(*command, "--set", "strategy.batch_size=3")
    assert status == 2 and "contains a run with different settings" in complaints
    status, complaints = in_process(*command, "--link", "fast")
    assert status == 2 and "cannot read --link fast" in complaints
    status, complaints = in_process(*command, "--weak", "--strong")
    assert status == 2 and "cannot combine --strong and --weak" in complaints


def test_a_failed_run_is_named_with_its_reason(tiny, tmp_path):
    pytest.importorskip("mpi4py", reason="ranks need mpi4py")
    tiny["strategy"] |= {"loss": "least-squares", "discriminator_lr": 1e30}
    plan = cases(configs.from_dict(tiny), [1], False, 9, 10)
    with pytest.raises(UserError, match=r"1-ranks-1 did not finish: \w+_loss of member \d became"):
        measure(plan, 1, tmp_path, lambda text: None)
    with pytest.raises(UserError, match="--repeats must be at least 1"):
        measure(plan, 0, tmp_path, lambda text: None)
