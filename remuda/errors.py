"""The one exception meant for users."""


class UserError(ValueError):
    """What the user can put right: one sentence that names the cause and the remedy.

    The command line prints it without a traceback and exits with status 2. Anything else that escapes is a bug.
    """
