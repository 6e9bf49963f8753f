"""Words after `--` in a command line: click leaves the dashes out."""

from collections.abc import Sequence

import click

DASHES = "--"
WORDS_BEHIND = "crawlctl.behind"  # key in the context's `meta`; value: number of words after `--`


class CommandWithDashes(click.Command):
    """A command with the number of words after `--` in its context."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[WORDS_BEHIND] = len(args) - args.index(DASHES) - 1 if DASHES in args else 0
        return super().parse_args(ctx, args)


def words_in_front(words: Sequence[str]) -> Sequence[str]:
    """Return the words in front of `--`. Only options may follow the words in the command line."""
    behind: int = click.get_current_context().meta[WORDS_BEHIND]
    return words[: max(0, len(words) - behind)]
