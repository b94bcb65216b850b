"""Turn two plain modules into a family of networks."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields, make_dataclass
from functools import cache
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from torch import Tensor, nn

from remuda.errors import UserError
from remuda.networks.base import Networks

Builder = Callable[..., nn.Module]  # a class of modules, or a function that returns a module
FILLED = ("shape", "num_classes", "latent", "conditional")  # arguments that remuda knows
_SIMPLE = (bool, int, float, str)


@dataclass(frozen=True)
class Plan:
    """The two builders of a wrapped family, and the options of ``wrap``."""

    generator: Builder
    discriminator: Builder
    latent: int
    conditional: bool
    auxiliary: bool
    noise_as_image: bool


@dataclass(frozen=True, kw_only=True)
class Wrapped(Networks):
    """Build the modules of a plan; the fields of subclasses are the builders' arguments."""

    plan: ClassVar[Plan]

    def __post_init__(self) -> None:
        super().__post_init__()
        plan = self.plan
        is_free = any("conditional" in _parameters(each) for each in _builders(plan))
        if self.conditional != plan.conditional and not is_free:
            raise UserError(
                f"networks.conditional is {str(plan.conditional).lower()} for these networks: "
                f"write conditional={self.conditional} in the call of remuda.networks.wrap"
            )

    def __reduce__(self) -> Any:
        """Pickle the plan instead of the class, which ``wrap`` makes again."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return _restore, (self.plan, values)

    @property
    def auxiliary(self) -> bool:
        return self.plan.auxiliary

    def generator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        module = self._build(self.plan.generator, shape, num_classes)
        takes_labels = _takes_labels(module, "generator", "noise")
        if self.conditional and not takes_labels:
            raise UserError(
                "the generator's forward takes no labels, but the networks are conditional: "
                "define forward(self, noise, labels)"
            )
        return WrappedGenerator(module, takes_labels, self.plan.noise_as_image)

    def discriminator(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        module = self._build(self.plan.discriminator, shape, num_classes)
        takes_labels = _takes_labels(module, "discriminator", "images")
        return WrappedDiscriminator(module, takes_labels)

    def _build(self, builder: Builder, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        known = {"shape": shape, "num_classes": num_classes}
        settings = {each.name: getattr(self, each.name) for each in fields(self)}
        values = settings | known
        module = builder(**{name: values[name] for name in _parameters(builder) if name in values})
        if not isinstance(module, nn.Module):
            raise UserError(
                f"{_name_of(builder)} must return an nn.Module, not a {type(module).__name__}"
            )
        return module


class WrappedGenerator(nn.Module):
    """Call a module with noise, and with labels if it takes them."""

    def __init__(self, network: nn.Module, takes_labels: bool, noise_as_image: bool):
        super().__init__()
        self.network, self.takes_labels = network, takes_labels
        self.noise_as_image = noise_as_image

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        if self.noise_as_image:
            noise = noise[:, :, None, None]
        return self.network(noise, labels) if self.takes_labels else self.network(noise)


class WrappedDiscriminator(nn.Module):
    """Call a module with images, and with labels if it takes them; return (b,) for (b, 1)."""

    num_batches = 1  # see remuda.networks.batches

    def __init__(self, network: nn.Module, takes_labels: bool):
        super().__init__()
        self.network, self.takes_labels = network, takes_labels

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        outputs = self.network(images, labels) if self.takes_labels else self.network(images)
        if isinstance(outputs, Tensor) and outputs.ndim > 1 and outputs[0].numel() == 1:
            return outputs.flatten()
        return outputs


def wrap(
    generator: Builder,
    discriminator: Builder,
    *,
    latent: int,
    conditional: bool = False,
    auxiliary: bool = False,
    noise_as_image: bool = False,
) -> type[Networks]:
    """Return a family of networks made of two plain modules.

    ``generator`` and ``discriminator`` are classes of modules, or functions that return a module.
    remuda fills in their arguments ``shape``, ``num_classes``, ``latent`` and ``conditional``.
    Other arguments need a default, and those with a simple default become settings:
    ``width: int = 64`` is ``networks.width``. A module's ``forward`` takes noise or images, and
    labels if it wants them. The discriminator may return (b, 1) instead of (b,).

    Args:
        generator: builds the generator, which maps noise (b, latent) to images (b, C, H, W).
        discriminator: builds the discriminator, which maps images to raw numbers.
        latent: default length of the noise vector.
        conditional: whether the generator uses labels.
        auxiliary: whether the discriminator returns class logits after its own number.
        noise_as_image: whether the generator receives noise as (b, latent, 1, 1).
    """
    for builder in (generator, discriminator):
        if isinstance(builder, nn.Module) or not callable(builder):
            raise UserError(
                f"remuda.networks.wrap needs the class {type(builder).__name__}, or a function "
                "that builds the module, because every member has its own weights"
            )
    plan = Plan(generator, discriminator, latent, conditional, auxiliary, noise_as_image)
    return _family(plan)


@cache
def _family(plan: Plan) -> type[Networks]:
    """Return the same class for equal plans, so that their instances compare equal."""
    settings: dict[str, tuple[Any, Any]] = {}
    for builder in _builders(plan):
        for name, (kind, default) in _settings(builder).items():
            if settings.setdefault(name, (kind, default))[1] != default:
                raise UserError(
                    f"{_name_of(plan.generator)} and {_name_of(plan.discriminator)} have different "
                    f"defaults for {name}: use one default, or two names"
                )
    columns = [
        ("latent", int, field(default=plan.latent)),
        ("conditional", bool, field(default=plan.conditional)),
        *((name, kind, field(default=default)) for name, (kind, default) in settings.items()),
    ]
    name = _name_of(plan.generator).removesuffix("Generator").strip("<>") or "Wrapped"
    family = make_dataclass(
        name, columns, bases=(Wrapped,), frozen=True, kw_only=True, namespace={"plan": plan}
    )
    family.__module__ = getattr(plan.generator, "__module__", __name__)
    family.__doc__ = plan.generator.__doc__ or (
        f"Build {_name_of(plan.generator)} and {_name_of(plan.discriminator)}."
    )
    return family


def _restore(plan: Plan, values: dict[str, Any]) -> Networks:
    return _family(plan)(**values)


def _builders(plan: Plan) -> tuple[Builder, Builder]:
    return plan.generator, plan.discriminator


def _parameters(builder: Builder) -> dict[str, inspect.Parameter]:
    """Return the arguments of a builder by name, without *args and **kwargs."""
    found = inspect.signature(builder).parameters
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    return {name: each for name, each in found.items() if each.kind in kinds}


def _settings(builder: Builder) -> dict[str, tuple[Any, Any]]:
    """Return the type and the default of every argument that becomes a setting."""
    hints = _hints(builder)
    found = {}
    for name, parameter in _parameters(builder).items():
        if name in FILLED:
            continue
        default = parameter.default
        if default is parameter.empty:
            raise UserError(
                f"remuda.networks.wrap cannot fill in the argument {name} of {_name_of(builder)}: "
                f"give it a default, which becomes networks.{name}; arguments without a default "
                f"may be called {', '.join(FILLED)}"
            )
        kind = hints.get(name, type(default))
        if not _is_setting(kind) or not _fits(kind, default):
            continue  # such as a class of layers: it keeps its default
        if name == "name" or hasattr(Wrapped, name):
            raise UserError(
                f"networks.{name} has a meaning in remuda, so {_name_of(builder)} cannot have an "
                f"argument {name}: rename it"
            )
        found[name] = kind, float(default) if kind is float else default
    return found


def _hints(builder: Builder) -> dict[str, Any]:
    function = builder.__init__ if inspect.isclass(builder) else builder
    try:
        return get_type_hints(function)
    except Exception:  # a hint may name something that exists only for type checkers
        return {}


def _is_setting(kind: Any) -> bool:
    if get_origin(kind) is tuple:
        return all(part is Ellipsis or part in _SIMPLE for part in get_args(kind))
    return kind in _SIMPLE or get_origin(kind) is Literal


def _fits(kind: Any, default: Any) -> bool:
    if get_origin(kind) is Literal:
        return default in get_args(kind)
    wanted = tuple if get_origin(kind) is tuple else kind
    return isinstance(default, wanted) or (kind is float and type(default) is int)


def _takes_labels(module: nn.Module, role: str, first: str) -> bool:
    """Return whether a module's forward takes labels after its first argument.

    An optional second argument receives labels only if it has this name.
    """
    signature = inspect.signature(module.forward)
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    arguments = [each for each in signature.parameters.values() if each.kind in kinds]
    required = [each for each in arguments if each.default is each.empty]
    has_first = bool(arguments) or any(
        each.kind is each.VAR_POSITIONAL for each in signature.parameters.values()
    )
    if not has_first or len(required) > 2:
        raise UserError(
            f"the {role}'s forward has the arguments {signature}: define forward(self, {first}) or "
            f"forward(self, {first}, labels)"
        )
    return len(required) == 2 or (len(arguments) > 1 and arguments[1].name == "labels")


def _name_of(builder: Builder) -> str:
    return getattr(builder, "__name__", type(builder).__name__)
