"""Build networks, and check once that they keep the contract: layers, shapes, randomness."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from remuda.errors import UserError, is_user_error
from remuda.gan.losses import Loss
from remuda.networks import Networks
from remuda.networks.inspection import Watch, check_layers
from remuda.networks.streams import with_keys
from remuda.tensors import random

BATCH = 2  # images in a check; BatchNorm needs more than one
ROLES = ("generator", "discriminator")


def build(networks: Networks, role: str, shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """Build the network with this role, whose random layers draw from keys."""
    try:
        network = getattr(networks, role)(shape, num_classes)
    except Exception as error:
        if is_user_error(error):
            raise
        size = "x".join(map(str, shape))
        raise _failure(error, f"building the {role} for images of {size}") from error
    if not isinstance(network, nn.Module):
        raise UserError(
            f"{type(networks).__name__}.{role} must return an nn.Module, not a "
            f"{type(network).__name__}"
        )
    return with_keys(network)


def check_networks(
    generator: nn.Module,
    discriminator: nn.Module,
    networks: Networks,
    shape: tuple[int, ...],
    num_classes: int,
    *,
    has_penalties: bool,
) -> None:
    """Raise a UserError unless both networks keep the contract of ``Networks``.

    The networks do not change, and PyTorch's random generator is not used. Penalties require second
    derivatives of the discriminator.
    """
    check_layers(generator, ROLES[0])
    check_layers(discriminator, ROLES[1])
    noise = random.normal(torch.tensor(random.key(0, "check")), (BATCH, networks.latent))
    labels = torch.arange(BATCH) % max(1, num_classes)
    images = _checked_outputs(generator, ROLES[0], noise, labels)
    _check_images(images, shape, "in training mode")
    sampler = Watch(copy.deepcopy(generator).eval(), ROLES[0])
    images = _call(sampler, "the generator's forward in evaluation mode", noise, labels)
    _check_images(images, shape, "in evaluation mode")
    images = images.detach()
    outputs = _checked_outputs(discriminator, ROLES[1], images, labels)
    _check_judgements(outputs, num_classes if networks.auxiliary else 0)
    if has_penalties:
        _check_second_derivatives(discriminator, images, labels)


def check_loss(loss: Loss, real_target: float) -> None:
    """Raise a UserError unless both functions of a loss return a number that can be minimised."""
    real, fake = (torch.tensor(values, requires_grad=True) for values in ([0.5, 1.0], [0.25, -1.0]))
    of_generator = (fake, real) if loss.pairs else (fake,)
    for role, inputs in zip(ROLES, (of_generator, (real, fake, real_target)), strict=True):
        what = f"strategy.loss cannot be used, because its function for the {role}"
        try:
            with torch.enable_grad():
                value = getattr(loss, role)(*inputs)
        except Exception as error:
            if is_user_error(error):
                raise
            message = " ".join(str(error).split())
            raise UserError(
                f"{what} raises {type(error).__name__}: {message}: correct it"
            ) from error
        is_number = isinstance(value, Tensor) and value.shape == () and value.requires_grad
        if not is_number or not value.isfinite():
            raise UserError(
                f"{what} must return a finite tensor without axes that depends on its arguments: "
                "end it with .mean()"
            )


def _checked_outputs(network: nn.Module, role: str, *inputs: Tensor) -> Tensor:
    """Return the outputs in training mode, and check what the network does with its state."""
    watch = Watch(copy.deepcopy(network).train(), role)
    outputs = _call(watch, f"the {role}'s forward", *inputs)
    if not outputs.requires_grad:
        raise UserError(
            f"the {role}'s output does not depend on its parameters: remove detach and no_grad "
            "from its forward"
        )
    is_judge = role == ROLES[1]
    first = inputs[0].clone().requires_grad_(is_judge)
    copied = copy.deepcopy(network).train()
    again = _call(copied, f"the {role}'s forward", first, *inputs[1:])
    leaves = [*copied.parameters(), *([first] if is_judge else [])]
    gradients = _gradients(again, role, leaves)
    if is_judge and gradients[-1] is None:
        raise UserError(
            "the discriminator's output does not depend on the images: compute it from the first "
            "argument of forward, without detach"
        )
    if not torch.equal(outputs, again):
        raise UserError(
            f"the {role} gives different outputs for the same weights and inputs: draw random "
            "numbers only from a remuda.networks.RandomStream, and keep state only in buffers"
        )
    path, layer = watch.tracker.last
    if is_judge and isinstance(layer, nn.Sigmoid):
        raise UserError(
            f"{path} is a Sigmoid at the end of the discriminator, but the losses "
            "expect raw outputs and apply their own: remove it"
        )
    return outputs


def _call(network: Any, what: str, *inputs: Tensor) -> Tensor:
    """Return the network's outputs: finite floats."""
    try:
        with torch.enable_grad():
            outputs = network(*inputs)
    except Exception as error:
        if is_user_error(error):
            raise
        raise _failure(error, what, *inputs) from error
    if not isinstance(outputs, Tensor) or outputs.dtype != torch.float32:
        found = outputs.dtype if isinstance(outputs, Tensor) else type(outputs).__name__
        raise UserError(f"{what} must return a tensor of torch.float32, not {found}")
    if not outputs.isfinite().all():
        raise UserError(
            f"{what} returned numbers that are not finite for new weights: check its first weights "
            "and its divisions"
        )
    return outputs


def _gradients(outputs: Tensor, role: str, leaves: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """Return the gradients of the outputs; None for a tensor that they do not depend on."""
    try:
        return torch.autograd.grad(outputs.sum(), leaves, allow_unused=True)
    except RuntimeError as error:  # such as a change in place of what the gradients need
        raise _failure(error, f"computing the gradients of the {role}") from error


def _check_second_derivatives(network: nn.Module, images: Tensor, labels: Tensor) -> None:
    """Check that PyTorch can train the gradient with respect to images."""
    copied = copy.deepcopy(network).train()
    images = images.clone().requires_grad_()
    try:
        outputs = copied(images, labels)
        (gradient,) = torch.autograd.grad(outputs.sum(), images, create_graph=True)
        torch.autograd.grad(gradient.sum(), list(copied.parameters()), allow_unused=True)
    except RuntimeError as error:
        raise UserError(
            "the gradient penalties (strategy.lipschitz=penalty, strategy.r1, strategy.r2) need "
            f"second derivatives of the discriminator, which PyTorch cannot compute ({error}): "
            "train without these penalties, or use other layers; attention has second derivatives "
            "inside `with torch.nn.attention.sdpa_kernel(SDPBackend.MATH)`"
        ) from error


def _failure(error: Exception, what: str, *inputs: Tensor) -> UserError:
    """Return an error of the user's own code as one sentence."""
    message = " ".join(str(error).partition("Hint: ")[0].split()).rstrip(".") or "no message"
    shapes = " and ".join(str(tuple(each.shape)) for each in inputs)
    given = f" with inputs of shapes {shapes}" if inputs else ""
    remedy = "correct the module; REMUDA_TRACEBACK=1 shows where it failed"
    if "inplace operation" in message:
        remedy = "write x = x * y in its forward instead of x *= y, and no functions such as x.mul_"
    if inputs and inputs[0].ndim == 2 and "4D (batched)" in message:
        remedy = (
            "the noise is (b, latent), so start forward with noise[:, :, None, None], or pass "
            "noise_as_image=True to remuda.networks.wrap"
        )
    return UserError(f"{what} failed{given} ({type(error).__name__}: {message}): {remedy}")


def _check_images(images: Tensor, shape: tuple[int, ...], mode: str) -> None:
    wanted = (BATCH, *shape)
    if images.shape == wanted:
        return
    remedy = "change its last layers"
    if images.numel() == torch.Size(wanted).numel():
        remedy = f"end forward with .reshape(-1, {', '.join(map(str, shape))})"
    raise UserError(
        f"{mode}, the generator returns {tuple(images.shape)} for {BATCH} vectors of noise instead "
        f"of {wanted}: {remedy}"
    )


def _check_judgements(outputs: Tensor, num_classes: int) -> None:
    """Check the shape of the discriminator's outputs; num_classes is 0 without a classifier."""
    wanted = (BATCH, 1 + num_classes) if num_classes else (BATCH,)
    if outputs.shape == wanted:
        return
    remedy = "return one number for each image"
    if num_classes:
        remedy = "return one number, then one for each class"
    elif outputs.ndim == 2 and outputs.numel() == BATCH:
        remedy = "end forward with [:, 0]"
    elif outputs.numel() == BATCH:
        remedy = "end forward with .flatten()"
    raise UserError(
        f"the discriminator returns {tuple(outputs.shape)} for {BATCH} images instead of "
        f"{wanted}: {remedy}"
    )
