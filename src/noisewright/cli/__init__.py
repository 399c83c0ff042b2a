"""The command line: what people see. A command is imported only when it is called.

To add one, write its click command and add one line to `COMMANDS`.
"""

from __future__ import annotations

import importlib
import traceback

import click

from noisewright import __version__
from noisewright.errors import NoisewrightError

# name: (where the click command lives, its line in `noisewright --help`)
COMMANDS = {
    "demo": ("noisewright.cli.answers:demo", "The whole job on a synthetic table, with a report."),
    "plan": ("noisewright.cli.plan:plan", "How wrong answers will be; write the plan."),
    "release": ("noisewright.cli.answers:release", "Private answers from a plan and a table."),
    "randomize": ("noisewright.cli.collecting:randomize", "Local: reports of a table's people."),
    "client": (
        "noisewright.cli.collecting:client",
        "Local: what a person's device runs, verified.",
    ),
    "estimate": ("noisewright.cli.collecting:estimate", "Local: answers from collected reports."),
    "compare": ("noisewright.cli.compare:compare", "Every mechanism that applies, side by side."),
    "sums": ("noisewright.cli.answers:sums", "Counts, sums and means of a number by group."),
    "norm": ("noisewright.cli.norm:norm", "How hard a workload is for linear strategies."),
    "schema": ("noisewright.cli.schema:schema", "Draft, check and show a table's public schema."),
}


class Refusal(click.ClickException):
    """A mistake that the caller can mend: one message, exit code 2."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        click.echo(f"error: {self.format_message()}", err=True)


class Breakdown(Refusal):
    """A failure that is ours to mend: exit code 1, and no message that might quote a record."""

    exit_code = 1


class LazyGroup(click.Group):
    """A group whose commands are named in a table and imported when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name][0].split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; turn every failure into a message without private values."""
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort, BrokenPipeError):
            raise
        except NoisewrightError as error:
            raise Refusal(str(error)) from None
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            raise Refusal(f"{error.strerror or type(error).__name__}{where}") from None
        except MemoryError:
            raise Refusal("out of memory; ask for less at once") from None
        except Exception as error:
            raise Breakdown(_without_values(error)) from None


def _without_values(error: Exception) -> str:
    """Say where it failed from code lines alone: messages of engines quote cells."""
    lines = "".join(traceback.format_list(traceback.extract_tb(error.__traceback__)[-4:]))
    return (
        f"unexpected {type(error).__name__} (its message is withheld, since it may quote records); "
        f"please report these lines:\n{lines.rstrip()}"
    )


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="noisewright")
def main() -> None:
    """Private answers to the queries you ask, close to the least noise of any linear method.

    Plans come with a lower bound where one is known, and say which methods it is about.
    """
