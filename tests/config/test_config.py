import tomllib
from dataclasses import dataclass

import pytest

from remuda import config, recipes
from remuda.errors import UserError
from remuda.networks import MLP, NETWORKS
from remuda.strategies import ClassParallel, Standalone


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_is_the_same_after_writing_and_reading(name, tmp_path):
    original = recipes.recipe(name)
    path = tmp_path / "config.toml"
    path.write_text(config.to_toml(original))
    assert recipes.recipe(str(path)) == original
    assert original.about


def test_the_names_that_users_type():
    assert {
        "standalone-digits",
        "class-parallel-digits",
        "class-parallel-mnist",
        "class-parallel-cifar10",
    } <= set(recipes.names())
    for strategy in config.STRATEGIES:
        assert f"{strategy}-digits" in recipes.names(), "every strategy has a quick recipe"


def test_overrides_are_typed():
    values = config.override(
        {"strategy": {"name": "class-parallel"}},
        [
            "data.name=mnist",
            "data.size=32",
            "networks.name=mlp",
            "networks.conditional=true",
            "strategy.generator_lr=1e-3",
            "strategy.generator_betas=[0.1, 0.9]",
            "data.path=/a=b",
        ],
    )
    made = config.from_dict(values)
    assert (made.data.name, made.data.size, made.data.path) == ("mnist", 32, "/a=b")
    assert made.networks == MLP(conditional=True)
    assert made.strategy == ClassParallel(generator_lr=1e-3, generator_betas=(0.1, 0.9))


def test_another_class_keeps_the_settings_that_it_knows():
    values = {"networks": {"name": "mlp", "latent": 16, "hidden": 128}}
    assert config.override(values, ["networks.name=dcgan"])["networks"] == {
        "name": "dcgan",
        "latent": 16,
    }
    assert config.override(values, ["networks.name=mlp"])["networks"] == values["networks"] | {
        "name": "mlp"
    }
    for broken in (
        "networks.name=[1]",
        "strategy.generator_betas=0.5",
        "run.lost=3",
        "scores.kinds=fib",
    ):
        with pytest.raises(UserError):
            config.from_dict(config.override({}, [broken]))
    with pytest.raises(UserError, match="data must be a table"):
        config.override({"data": 3}, ["data.name=digits"])
    # The user's own setting is not dropped, in either order.
    given = ["strategy.lose_every=5", "strategy.name=fl-gan"]
    for order in (given, given[::-1]):
        with pytest.raises(UserError, match=r"strategy\.lose_every"):
            config.from_dict(config.override({}, order))


BAD = {
    "networks.dropout must be in [0, 0.99], not 0.999": {"networks": {"dropout": 0.999}},
    "unknown key in [strategy]: strategy.lr; did you mean generator_lr or discriminator_lr or "
    "final_lr?": {"strategy": {"lr": 0.001}},
    "unknown key in [strategy]: strategy.batchsize; did you mean batch_size?": {
        "strategy": {"batchsize": 3}
    },
    "strategy.share_every does not exist for strategy.name=standalone: remove it, or set "
    "strategy.name to class-parallel": {"strategy": {"share_every": 2}},
    'strategy.shared_generator: expected words in brackets, such as ["a", "b"], not \'body\'': {
        "strategy": {"name": "class-parallel", "shared_generator": "body"}
    },
    'data.classes: expected words in brackets, such as ["a", "b"], not [3, 8]': {
        "data": {"classes": [3, 8]}
    },
    "strategy.families: expected lists of numbers, such as [[0, 1], [2, 3]], not [0, 1]": {
        "strategy": {"name": "class-parallel", "families": [0, 1]}
    },
    "unknown section: strategi; did you mean strategy?": {"strategi": {}},
    "strategy.name='class-paralel' is unknown: did you mean class-parallel?": {
        "strategy": {"name": "class-paralel"}
    },
    "networks.name='mpl' is unknown: did you mean mlp?": {"networks": {"name": "mpl"}},
    "strategy.batch_size: expected a whole number, not 'many'": {
        "strategy": {"batch_size": "many"}
    },
    "strategy.batch_size: expected a whole number, not 1.5": {"strategy": {"batch_size": 1.5}},
    "strategy.batch_size: expected a whole number, not True": {"strategy": {"batch_size": True}},
    "strategy.batch_size must be at least 1, not 0": {"strategy": {"batch_size": 0}},
    "strategy.generator_lr must be a finite number above 0, not nan": {
        "strategy": {"generator_lr": float("nan")}
    },
    "strategy.loss='hing' is unknown: did you mean hinge?": {"strategy": {"loss": "hing"}},
    "networks.conditional: expected true or false, not 1": {"networks": {"conditional": 1}},
    "run.rounds must be at least 1, not 0": {"run": {"rounds": 0}},
    "run.rounds must be at most 100000000000, not 1": {"run": {"rounds": 10**20}},
    "engine.threads must be at most 4096, not 1": {"engine": {"threads": 10**11}},
    "strategy.steps_per_round must be at least 0 and finite, not -1": {
        "strategy": {"steps_per_round": -1}
    },
    "strategy.r1 must be at least 0 and finite, not -0.5": {"strategy": {"r1": -0.5}},
    "strategy.r2 must be at least 0 and finite, not nan": {"strategy": {"r2": float("nan")}},
    "strategy.penalty_every must be at least 1, not 0": {"strategy": {"penalty_every": 0}},
    "strategy.penalty_every must be at most strategy.batch_size, which is 4, not 8": {
        "strategy": {"batch_size": 4, "penalty_every": 8}
    },
    "run must be a table of settings, not 3": {"run": 3},
    "engine.name='mpi5' is unknown: did you mean mpi?": {"engine": {"name": "mpi5"}},
    "engine.name: expected text, not 3": {"engine": {"name": 3}},
    "engine.ranks=2 requires MPI: add --engine mpi": {"engine": {"ranks": 2}},
    "the wasserstein loss needs a Lipschitz critic": {
        "strategy": {"loss": "wasserstein", "lipschitz": "none"}
    },
    "strategy.cutout must be in [0, 1), not 1.0": {"strategy": {"cutout": 1.0}},
    "strategy.ada_target must be in [0, 1), not 1.0": {"strategy": {"ada_target": 1.0}},
    "strategy.ada_images must be a finite number above 0, not inf": {
        "strategy": {"ada_images": float("inf")}
    },
    "strategy.ada_target adapts how often images are changed, but no change": {
        "strategy": {"ada_target": 0.6}
    },
    "strategy.colour must be in [0, 1], not 1.5": {"strategy": {"colour": 1.5}},
    "strategy.label_smoothing does not apply": {
        "strategy": {"loss": "hinge", "label_smoothing": 0.1}
    },
    "strategy.generator_betas must be two numbers in [0, 1)": {
        "strategy": {"generator_betas": [0.5, 1.0]}
    },
    "strategy.final_lr must be at least 0 and finite, not -0.1": {
        "strategy": {"annealing": "linear", "annealing_rounds": 3, "final_lr": -0.1}
    },
    "strategy.warmup_rounds must be at least 0 and finite, not inf": {
        "strategy": {"warmup_rounds": float("inf")}
    },
    "strategy.final_betas must be two numbers in [0, 1) or empty, not [0.5]": {
        "strategy": {"annealing": "cosine", "annealing_rounds": 3, "final_betas": [0.5]}
    },
    "strategy.final_lr, final_betas, final_penalty and annealing_rounds have no effect": {
        "strategy": {"final_lr": 0.1}
    },
    "strategy.annealing=cosine needs a final value": {
        "strategy": {"annealing": "cosine", "annealing_rounds": 10}
    },
    "strategy.ema and strategy.ema_images set the same": {
        "strategy": {"ema": 0.9, "ema_images": 1000}
    },
    "strategy.ema_rampup limits strategy.ema_images": {"strategy": {"ema_rampup": 0.05}},
    "networks.width must be a multiple of 8, not 12": {"networks": {"width": 12}},
}


@pytest.mark.parametrize("sentence", BAD)
def test_bad_settings_get_one_sentence(sentence):
    with pytest.raises(UserError) as caught:
        config.from_dict(BAD[sentence])
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("assignment", ["data", "data.size", "size=3", "=3", "dta.size=3"])
def test_bad_assignments_get_one_sentence(assignment):
    with pytest.raises(UserError):
        config.override({}, [assignment])


def test_files_that_are_missing_or_broken(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        recipes.read(str(tmp_path / "none.toml"))
    (tmp_path / "broken.toml").write_text("a = = 3")
    with pytest.raises(UserError, match="not valid TOML"):
        recipes.read(str(tmp_path / "broken.toml"))
    with pytest.raises(UserError, match="did you mean class-parallel-digits"):
        recipes.read("class-parallel-digit")
    with pytest.raises(UserError, match="did you mean fl-gan-digits"):
        recipes.read("FL-GAN-digits")


def test_annealing_ends_with_the_run_unless_a_setting_says_otherwise():
    values = {"strategy": {"annealing": "linear", "final_lr": 0.0}, "run": {"rounds": 7}}
    started = config.from_dict(values)
    assert started.strategy.annealing_rounds == 7
    # A resumed run reads the recorded number: more rounds do not change the schedule.
    recorded = config.override(config.to_dict(started), ["run.rounds=9"])
    assert config.from_dict(recorded).strategy.annealing_rounds == 7
    values["strategy"]["annealing_rounds"] = 3.5
    assert config.from_dict(values).strategy.annealing_rounds == 3.5
    assert config.from_dict({}).strategy.annealing_rounds == 0


def test_a_strategy_without_a_run_needs_the_length_of_its_annealing():
    networks = MLP(hidden=4)
    made = Standalone(annealing="linear", final_lr=0.0)
    with pytest.raises(UserError, match="annealing_rounds must be above 0"):
        made.prepare(networks, (1, 4, 4), 0, seed=0)
    made.for_rounds(3).prepare(networks, (1, 4, 4), 0, seed=0)


def test_a_size_is_a_number_or_a_pair():
    for text, size in (("32", 32), ("[48, 64]", (48, 64)), ("[48,64]", (48, 64))):
        made = config.from_dict(config.override({}, [f"data.size={text}"]))
        assert made.data.size == size
        assert config.from_dict(tomllib.loads(config.to_toml(made))) == made
    for text in ("[48]", "[1, 2, 3]", "[1.5, 2]", "true", "1.5", "big", "[a, b]"):
        with pytest.raises(UserError, match=r"data\.size: expected "):
            config.from_dict(config.override({}, [f"data.size={text}"]))


@dataclass(frozen=True, kw_only=True)
class Sized(MLP):
    """Networks with settings that remuda cannot write to a record."""

    depth: int
    width: int = "wide"  # type: ignore[assignment]
    groups: int | None = None

    def __post_init__(self):
        if self.depth < 1:
            raise ValueError("too\nflat")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "networks.depth has no default: set it"),
        ({"depth": 2}, "networks.width: expected a whole number, not 'wide'"),
        ({"depth": 2, "width": 3}, "networks.groups: expected a whole number, not None"),
        ({"depth": 0, "width": 3, "groups": 1}, "networks: too flat"),
    ],
)
def test_settings_of_users_networks_have_the_types_of_their_fields(monkeypatch, settings, sentence):
    monkeypatch.setitem(NETWORKS, "sized", Sized)
    with pytest.raises(UserError) as caught:
        config.from_dict({"networks": {"name": "sized", **settings}})
    assert str(caught.value) == sentence
