import pytest

from remuda.data import DataConfig
from remuda.errors import UserError


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"alpha": -1}, "data.alpha must be above 0, not -1"),
        ({"alpha": float("nan")}, "data.alpha must be above 0, not nan"),
        ({"alpha": float("inf")}, "data.alpha must be at most 1e6"),
        ({"fraction": 0}, "data.fraction must be above 0 and at most 1, not 0"),
        ({"fraction": 1.5}, "data.fraction must be above 0 and at most 1, not 1.5"),
        ({"size": -1}, "data.size must be 0 or more, not -1"),
        ({"size": (8, -1)}, r"data.size must be 0 or more, not \(8, -1\)"),
        ({"size": (8, 0)}, "a height and a width above 0"),
        ({"size": (8, 10**6)}, "data.size must be at most 16384 pixels per side"),
        ({"fit": "zoom"}, "data.fit must be one of crop, pad, stretch, not zoom"),
        ({"filter": "best"}, "data.filter must be one of bilinear, bicubic, not best"),
        ({"background": "red"}, "data.background must be one of black, white, not red"),
        ({"storage": "tape"}, "data.storage must be one of auto, memory, disk, not tape"),
        ({"channels": -3}, "data.channels must be 0 or more, not -3"),
        ({"limit": -10}, "data.limit must be 0 or more, not -10"),
        ({"ranks": (0, 1)}, "data.ranks requires {rank} or {host} in data.name or data.path"),
        (
            {"partition": "random"},
            "data.partition must be one of auto, all, class, iid, dirichlet, subset",
        ),
    ],
)
def test_the_message_names_a_value_out_of_range(values, message):
    with pytest.raises(UserError, match=message):
        DataConfig(**values)


def test_sides():
    assert DataConfig().sides is None
    assert DataConfig(size=32).sides == (32, 32)
    assert DataConfig(size=(48, 64)).sides == (48, 64)
