"""Prepare results that will probably be requested next, in a background thread."""

from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Request = TypeVar("Request", bound=Hashable)
Result = TypeVar("Result")


class Prefetcher(Generic[Request, Result]):
    """Answer requests; meanwhile, prepare the answer to the request that should follow.

    An answer depends only on its request. A wrong guess therefore costs time, but changes nothing.

    Args:
        answer: computes the answer to a request, in any thread.
        following: guesses the request that follows a request.
        capacity: the maximum number of prepared answers.
    """

    def __init__(
        self,
        answer: Callable[[Request], Result],
        following: Callable[[Request], Request],
        capacity: int,
    ):
        self._answer, self._following, self._capacity = answer, following, capacity
        self._prepared: dict[Request, Future[Result]] = {}  # the oldest first
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="prefetch")

    def get(self, request: Request) -> Result:
        """Return the answer to a request, and start to prepare the next one."""
        prepared = self._prepared.pop(request, None)
        found = self._answer(request) if prepared is None else prepared.result()
        guess = self._following(request)
        if guess not in self._prepared:
            self._prepared[guess] = self._pool.submit(self._answer, guess)
        while len(self._prepared) > self._capacity:
            self._prepared.pop(next(iter(self._prepared))).cancel()
        return found
