"""MD-GAN with fewer discriminators than workers, and with different starts."""

import pytest
import torch

from remuda import config
from remuda.data.batches import Batches
from remuda.engines import Metered, SingleProcess, Stacked
from remuda.errors import UserError
from remuda.experiments.traffic import md_gan, setting_of
from remuda.networks import MLP
from remuda.strategies import MDGAN
from remuda.strategies.md_gan_visits import split_workers, visit
from remuda.tensors import trees
from remuda.training import failures
from remuda.training.assemble import assemble
from remuda.training.shares import divide

SHAPE = (1, 8, 8)


def visits_of(group, rounds, swap_every, rule="rotation", seed=0):
    return [tuple(visit(group, t, swap_every, rule, seed)) for t in range(1, rounds + 1)]


@pytest.mark.parametrize(("workers", "members"), [(7, 3), (10, 10), (1000, 30), (5, 1)])
def test_groups_are_disjoint_complete_and_of_nearly_equal_sizes(workers, members):
    groups = split_workers(workers, members)
    assert [worker for group in groups for worker in group] == list(range(workers))
    sizes = {len(group) for group in groups}
    assert len(groups) == members and max(sizes) - min(sizes) <= 1


def test_a_rotation_continues_every_workers_stream():
    """Two rounds per visit and three workers: (worker, rounds of its stream before this one)."""
    assert visits_of(range(4, 7), 9, swap_every=2) == [
        (4, 0),
        (4, 1),
        (5, 0),
        (5, 1),
        (6, 0),
        (6, 1),
        (4, 2),
        (4, 3),
        (5, 2),
    ]


@pytest.mark.parametrize("rule", ["rotation", "random"])
@pytest.mark.parametrize("swap_every", [0, 1, 3])
def test_a_group_of_one_worker_never_changes(rule, swap_every):
    assert visits_of(range(8, 9), 4, swap_every, rule) == [(8, 0), (8, 1), (8, 2), (8, 3)]


def test_random_visits_depend_on_seed_group_and_visit():
    many = visits_of(range(10, 15), 200, 2, "random")
    assert many == visits_of(range(10, 15), 200, 2, "random")
    assert all(one[0] == other[0] for one, other in zip(many[::2], many[1::2], strict=True))
    assert [rounds for _, rounds in many] == list(range(200))
    workers = [worker for worker, _ in many[::2]]
    assert all(10 < workers.count(worker) < 32 for worker in range(10, 15)), "about 20 each"
    for other in (
        visits_of(range(10, 15), 200, 2, "random", seed=1),
        visits_of(range(15, 20), 200, 2, "random"),
    ):
        assert [worker % 5 for worker, _ in other[::2]] != [worker % 5 for worker in workers]


def make_batches(toy_data, groups):
    shares = list(torch.arange(len(toy_data.labels)).split(3))
    members = range(len(groups) or len(shares))
    return shares, Batches(toy_data, shares, members=members, groups=groups, batch_size=2, seed=7)


def test_rounds_draw_the_visited_workers_own_streams(toy_data):
    """Groups (0, 1) and (2, 3, 4), two rounds per visit, one batch of two images per round."""
    groups = split_workers(5, 2)
    shares, batches = make_batches(toy_data, groups)
    streams = Batches(toy_data, shares, members=range(5), batch_size=2, seed=7)
    strategy = MDGAN(discriminators=2, swap_every=2)
    seen = [strategy.draw(batches, t, 1).images for t in range(1, 13)]
    for member, group in enumerate(groups):
        for t, worker, place in [(1, 0, 0), (2, 0, 1), (3, 1, 0), (4, 1, 1)]:
            expected = streams.draw_row(group[worker], place, 1).images[0]
            assert torch.equal(seen[t - 1][member], expected)
    assert torch.equal(seen[4][0], streams.draw_row(0, 2, 1).images[0]), "worker 0 continues"
    assert torch.equal(seen[4][1], streams.draw_row(4, 0, 1).images[0])
    used = {int(image.sum()) for images in seen for image in images[0].flatten(0, 1)}
    own = {int(toy_data.images[i].sum()) for share in shares[:2] for i in share}
    assert used == own, "all data of the group are used, and no others"


def test_as_many_discriminators_as_workers_change_nothing(toy_data):
    plain = make_batches(toy_data, ())[1]
    grouped = make_batches(toy_data, split_workers(len(plain.groups), len(plain.groups)))[1]
    size = len(plain.groups)
    for t in (1, 2, 5):
        one = MDGAN().draw(plain, t, 3)
        other = MDGAN(discriminators=size, swap_every=2, visits="random").draw(grouped, t, 3)
        assert trees.equal(one, other) and trees.equal(one, plain.draw((t - 1) * 3, 3))


def test_impossible_numbers_are_refused():
    with pytest.raises(UserError, match=r"strategy\.discriminators must be at least 0"):
        MDGAN(discriminators=-1)
    with pytest.raises(UserError, match="more than the 10 workers"):
        MDGAN(discriminators=11).num_members(0, 10)
    with pytest.raises(UserError, match="never use the data of the other 4 workers"):
        MDGAN(discriminators=3, swap_every=0).num_members(7, 10)
    with pytest.raises(UserError, match="never use the data of the other 1 worker:"):
        MDGAN(discriminators=6, swap_every=0).num_members(7, 10)
    with pytest.raises(UserError, match="more than the 3 members"):
        MDGAN(discriminators=3, num_fake_batches=4).num_members(7, 10)
    with pytest.raises(UserError, match="fixes the number of members"):
        MDGAN(discriminators=3).resize(3, 4)
    assert MDGAN(discriminators=3).resize(3, 3) == [0, 1, 2]
    assert MDGAN(discriminators=7, swap_every=0).num_members(7, 10) == 7


def test_populations_grow_and_shrink():
    strategy, members = MDGAN(discriminators=3).grow(2, 7)
    assert (strategy.discriminators, members) == (6, 14)
    strategy, members = MDGAN(discriminators=3).shrink(2, 7)
    assert (strategy.discriminators, members) == (2, 7)
    assert MDGAN().shrink(2, 7) == (MDGAN(), 2)
    assert MDGAN(discriminators=3).grow(2, 0)[1] == 20


@pytest.mark.parametrize("requested", [10, 0])
def test_a_run_with_as_many_discriminators_as_workers_survives_a_loss(requested):
    """No worker waits for a visit, so swaps are not necessary."""
    strategy, members = MDGAN(discriminators=10, swap_every=0).shrink(8, requested)
    assert strategy.num_members(members, 10) == 8
    assert strategy.share_groups(8 + 2, members) == [range(i, i + 1) for i in range(10)]


def grouped(tiny, **strategy):
    tiny["strategy"] |= {"name": "md-gan", "discriminators": 3, **strategy}
    tiny["run"]["members"] = 7
    return config.from_dict(tiny)


def test_a_round_is_a_pass_over_the_share_of_a_worker(tiny):
    herd = assemble(grouped(tiny, steps_per_round=0))
    num_images = sum(herd.facts.counts)
    assert herd.engine.size == 3 and list(map(len, herd.batches.groups)) == [2, 2, 3]
    assert herd.num_batches == -(-num_images // (7 * herd.strategy.batch_size))
    assert sum(herd.context.shares) == num_images, "members have the data of their groups"


def test_a_lost_member_loses_its_group_and_the_others_keep_theirs(tiny):
    whole = grouped(tiny)
    reduced = failures.without(whole, 3, [1])
    assert (reduced.strategy.discriminators, reduced.run.members, reduced.run.lost) == (2, 7, (1,))
    before, after = assemble(whole), assemble(reduced)
    assert after.member_ids == [0, 2] and after.batches.groups == [range(2), range(4, 7)]
    for t in (1, 2, 5):
        images = before.strategy.draw(before.batches, t, 2).images
        remaining = after.strategy.draw(after.batches, t, 2).images
        assert torch.equal(remaining, images[[0, 2]])
    twice = failures.without(reduced, 2, [0])
    assert assemble(twice).batches.groups == [range(4, 7)]


def test_ranks_with_their_own_data_need_one_discriminator_per_worker(tiny, toy_data):
    tiny["data"], tiny["engine"] = {"name": "folder:/data/{host}"}, {"name": "mpi"}
    with pytest.raises(UserError, match=r"leave strategy\.discriminators at 0"):
        divide(grouped(tiny), toy_data, [range(3)], SingleProcess())


def test_traffic_counts_the_workers_with_a_discriminator(tiny):
    run = grouped(tiny, steps_per_round=0, batch_size=4)
    setting, herd = setting_of(run), assemble(run)
    assert setting.num_workers == 3 and setting.num_fake_batches == 1
    assert setting.period == herd.num_steps
    state = herd.start()
    herd.round(state, 1)
    messages, sent = md_gan(setting), herd.engine.bytes
    assert sent["scatter", "down"] == herd.num_steps * 3 * messages.down
    assert sent["gather", "up"] == herd.num_steps * 3 * messages.up
    params = trees.num_bytes(state.workers.params) // 3
    assert messages.across == params and sent["take", "across"] >= 3 * params


@pytest.mark.parametrize("same_start", [True, False])
def test_discriminators_start_alike_or_each_with_its_own_weights(same_start):
    strategy = MDGAN(same_start=same_start)
    context = strategy.prepare(MLP(latent=5, hidden=12), SHAPE, 3, seed=7)
    state = strategy.init(context, Metered(Stacked(4)))
    weights = state.workers.params["layers.0.weight"]
    assert all(torch.equal(weights[0], row) == same_start for row in weights[1:])
    default = MDGAN().init(context, Stacked(4))
    assert trees.equal(state.server, default.server), "the generator is the same"
    assert torch.equal(weights[0], default.workers.params["layers.0.weight"][0])
