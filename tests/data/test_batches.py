import torch

from remuda.data.batches import Batches


def make(data, shares, batch_size=4, members=None, seed=0):
    members = range(len(shares)) if members is None else members
    return Batches(data, shares, members=members, batch_size=batch_size, seed=seed)


def by_class(data):
    return [(data.labels == k).nonzero()[:, 0] for k in range(3)]


def test_every_image_comes_once_per_epoch(toy_data):
    share = torch.arange(12)
    batch = make(toy_data, [share]).draw(0, 6)  # two epochs of twelve
    drawn = batch.images[0].flatten(0, 1)
    expected = sorted(image.sum() for image in toy_data.images[share])
    for epoch in (drawn[:12], drawn[12:]):
        assert sorted(image.sum() for image in epoch) == expected
    assert not torch.equal(drawn[:12], drawn[12:]), "each epoch has its own order"


def test_shares_smaller_than_a_batch_wrap_around(toy_data):
    batch = make(toy_data, by_class(toy_data)).draw(0, 3)
    assert batch.images.shape == (3, 3, 4, 1, 8, 8)
    assert [labels.unique().tolist() for labels in batch.labels] == [[0], [1], [2]]
    twos = batch.images[2].flatten(0, 1).flatten(1).float().mean(1)
    both_equally_often = len(twos.unique()) == 2 and (twos == twos[0]).sum() == 6
    assert both_equally_often


def test_any_part_of_the_stream_can_be_drawn_again(toy_data):
    batches = make(toy_data, by_class(toy_data), batch_size=5)
    whole = batches.draw(0, 7)
    parts = [batches.draw(0, 3), batches.draw(3, 1), batches.draw(4, 3)]
    assert torch.equal(whole.images, torch.cat([part.images for part in parts], 1))


def test_a_member_draws_the_same_wherever_it_is_hosted(toy_data):
    together = make(toy_data, by_class(toy_data)).draw(2, 2)
    alone = make(toy_data, by_class(toy_data), members=[1]).draw(2, 2)
    assert torch.equal(together.images[1:2], alone.images)


def test_shares_are_drawn_from_their_own_positions(toy_data):
    """Member 1 hosts shares 1 and 2, of which only one is drawn at a time."""
    shares = by_class(toy_data)
    options = dict(batch_size=4, seed=3, mirror=True)
    streams = Batches(toy_data, shares, members=range(3), **options)
    groups = [range(1), range(1, 3)]
    grouped = Batches(toy_data, shares, members=[1], groups=groups, **options)
    assert len(grouped.labels) == 7, "only the images of classes 1 and 2 are kept"
    drawn = grouped.draw_shares([2, 1], [5, 3], 2)
    for row, (share, first) in enumerate([(2, 5), (1, 3)]):
        assert torch.equal(drawn.images[row], streams.draw_row(share, first, 2).images[0])
    whole = streams.draw(3, 2)
    assert torch.equal(drawn.images[1], whole.images[1])


def test_seeds_and_members_have_their_own_order(toy_data):
    shares = [torch.arange(12)] * 2
    first, second = make(toy_data, shares, batch_size=12).draw(0, 1).images
    assert not torch.equal(first, second)
    other_seed = make(toy_data, shares, batch_size=12, seed=1).draw(0, 1).images[0]
    assert not torch.equal(first, other_seed)


def test_half_of_the_images_are_mirrored_and_only_the_position_decides(toy_data):
    shares = [torch.arange(19), torch.arange(19)]
    plain = Batches(toy_data, shares, members=range(2), batch_size=8, seed=1)
    mirrored = Batches(toy_data, shares, members=range(2), batch_size=8, seed=1, mirror=True)
    straight, other = plain.draw(0, 50), mirrored.draw(0, 50)
    same = (straight.images == other.images).flatten(3).all(3)
    turned = (straight.images.flip(-1) == other.images).flatten(3).all(3)
    assert (same | turned).all() and 0.45 < turned.float().mean() < 0.55
    assert torch.equal(straight.labels, other.labels)
    assert not torch.equal(turned[0], turned[1]), "each member has its own draws"
    assert torch.equal(mirrored.draw(30, 5).images, other.images[:, 30:35])
