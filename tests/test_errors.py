"""Check which errors end a command with a sentence, and which are bugs."""

import errno

import pytest
import torch

from remuda.errors import (
    Interrupted,
    StoppedByFailure,
    UserError,
    exit_status,
    explain,
    is_user_error,
    with_status,
)


def refusal(*shape) -> RuntimeError:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(shape)
    return caught.value


@pytest.mark.parametrize("shape", [(10**14,), (2**62, 8)], ids=["no room", "no number"])
def test_pytorchs_messages_about_full_memory_are_recognized(shape):
    error = refusal(*shape)
    assert is_user_error(error) and explain(error).startswith(
        "the memory is full: lower strategy.batch_size"
    )


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (UserError("take fewer"), "take fewer"),
        (MemoryError(), "the memory is full"),
        (torch.OutOfMemoryError(), "the device's memory is full"),
        (
            OSError(errno.ENOSPC, "No space left on device", "/x/y"),
            "the disk has no space left for /x/y: free some space",
        ),
        (
            OSError(errno.EDQUOT, "Disk quota exceeded", "/x/y"),
            "your disk quota is used up for /x/y: free some space",
        ),
        (
            OSError(errno.EACCES, "Permission denied", "/x/y"),
            "cannot access /x/y (Permission denied): check the permissions",
        ),
        (
            OSError(errno.EROFS, "Read-only file system", "/x/y"),
            "cannot write /x/y (Read-only file system): copy the folder to another disk",
        ),
        (OSError(errno.EIO, "Input/output error", "/x/y"), "/x/y: Input/output error"),
        (KeyboardInterrupt(), "stopped"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_user_is_told_what_to_do(error, words):
    assert is_user_error(error) and explain(error).startswith(words)


@pytest.mark.parametrize(
    "error", [RuntimeError("shapes do not match"), ValueError("x"), KeyError("x")], ids=repr
)
def test_other_errors_are_bugs(error):
    assert not is_user_error(error)


@pytest.mark.parametrize(
    ("kind", "status"), [(UserError, 2), (StoppedByFailure, 75), (Interrupted, 130)]
)
def test_a_rank_learns_the_kind_of_an_error_from_its_status(kind, status):
    assert exit_status(kind("x")) == status and type(with_status(status, "x")) is kind


def test_other_exceptions_have_the_status_of_user_errors():
    assert exit_status(OSError()) == exit_status(MemoryError()) == 2
    assert exit_status(KeyboardInterrupt()) == 130
