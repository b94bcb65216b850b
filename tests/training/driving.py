"""Drive the training loop by hand, phase by phase, next to a simulated second rank."""

from remuda import config
from remuda.engines import LostRank, SingleProcess
from remuda.training.loop import advance
from remuda.training.progress import Progress
from remuda.training.state import Phase, Session, Training


class TwoRanks(SingleProcess):
    """Pretend to be rank 0 of two; rank 1 hosts no members.

    The next message to the other rank raises ``event``, once.
    """

    def __init__(self):
        super().__init__()
        self.event = None
        self.others = []  # the facts of other ranks

    def _send(self):
        event, self.event = self.event, None
        if event is not None:
            raise event

    def all_gather(self, facts):
        self._send()
        return [facts, *self.others]

    def max_over_ranks(self, number):
        self._send()
        return number

    def finish(self):
        self._send()

    def recover(self):
        self.lost = [LostRank(1, "node7")]


class Driver:
    """Run the phases one by one and keep their order."""

    def __init__(self, values, folder, action="stop", is_new=True):
        self.communicator, self.phases = TwoRanks(), []
        self.session = Session(
            communicator=self.communicator, progress=Progress(), is_new=is_new, action=action
        )
        run = config.from_dict(values)
        self.training = Training(phase=Phase.ASSEMBLE, folder=folder, whole=run, config=run)

    def advance(self):
        self.phases.append(self.training.phase)
        self.training = advance(self.session, self.training)

    def run_until(self, phase, after=0):
        """Stop before a phase, but not before a round is reached."""
        while self.training.phase is not phase or self.reached < after:
            self.advance()

    def run(self):
        self.run_until(Phase.DONE)
        self.training.recorder.end()

    @property
    def reached(self):
        return self.training.reached.round if self.training.reached else 0

    def close(self):
        self.session.heartbeats.close()
        self.session.resources.close()
