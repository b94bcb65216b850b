"""Several threads of one process may start runs at the same time."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from remuda.networks import MLP
from remuda.tensors import trees
from tests.gan.test_gan import make


@dataclass(frozen=True, kw_only=True)
class Announced(MLP):
    """An MLP that calls a function before it builds its generator."""

    before: Callable[[], None] = lambda: None

    def generator(self, shape, num_classes):
        self.before()
        return super().generator(shape, num_classes)


def test_weights_do_not_depend_on_other_threads():
    is_building, may_build = threading.Event(), threading.Event()

    def wait_in_the_other_thread():
        if threading.current_thread() is other:
            is_building.set()
            may_build.wait(10)
        elif other.ident is None and is_ready:
            other.start()
            is_building.wait(0.2)  # in vain, because the other thread waits for its turn

    is_ready = False
    other = threading.Thread(target=lambda: gan.init(4))
    gan = make(Announced(latent=5, hidden=8, before=wait_in_the_other_thread))
    expected = gan.init(3)
    is_ready = True
    together = gan.init(3)
    may_build.set()
    other.join()
    assert trees.equal(together, expected)
