"""The command line: what people see. A command is imported only when it is called.

To add one, write its click command and add one line to `COMMANDS`.
"""

from __future__ import annotations

import importlib

import click

from noisewright import __version__
from noisewright.cli.failures import one_style
from noisewright.cli.output import told_warnings

# name: (where in this room the click command lives, its line in `noisewright --help`)
COMMANDS = {
    "demo": (
        "commands.answers:demo",
        "The whole job on a synthetic table, with a report.",
    ),
    "plan": ("plan:plan", "How wrong answers will be; write the plan."),
    "release": ("commands.release:release", "Private answers from a plan and a table."),
    "answer": (
        "commands.answers:answer",
        "Further answers from a release, at no cost.",
    ),
    "report": ("commands.show:report", "A page about a plan, release or ledger."),
    "show": ("commands.show:show", "What a file is and what it says was spent."),
    "randomize": (
        "commands.collecting:randomize",
        "Local: reports of a table's people.",
    ),
    "client": (
        "commands.collecting:client",
        "Local: what a person's device runs, verified.",
    ),
    "estimate": (
        "commands.collecting:estimate",
        "Local: answers from collected reports.",
    ),
    "serve": (
        "commands.serving:serve",
        "Local: collect reports from people's browsers.",
    ),
    "compare": (
        "commands.compare:compare",
        "Every mechanism that applies, side by side.",
    ),
    "sums": ("commands.answers:sums", "Counts, sums and means of a number by group."),
    "ledger": ("commands.ledger:ledger", "Budgets of datasets, and who spent them."),
    "norm": ("commands.norm:norm", "How hard a workload is for linear strategies."),
    "bounds": ("commands.schema:bounds", "Bounds of numeric columns, without looking."),
    "schema": (
        "commands.schema:schema",
        "Draft, check and show a table's public schema.",
    ),
}


class LazyGroup(click.Group):
    """A group whose commands are named in a table and imported when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None

        module, attribute = COMMANDS[cmd_name][0].split(":")
        command: click.Command = getattr(
            importlib.import_module(f"{__name__}.{module}"), attribute
        )
        return command

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, summary) for name, (_, summary) in COMMANDS.items()]
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with one_style(args):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; turn every failure into a message without private values."""
        with one_style(ctx.args), told_warnings():
            return super().invoke(ctx)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="noisewright")
@click.option(
    "--log",
    metavar="FILE",
    help="Append steps and their times to FILE, as lines of JSON.",
)
@click.pass_context
def main(context: click.Context, log: str | None) -> None:
    """Private answers to the queries you ask, close to the least noise of any linear method.

    Plans come with a lower bound where one is known, and say which methods it is about.
    """
    if log is not None:
        from noisewright.cli.failures import logging_to

        context.with_resource(logging_to(log, context.invoked_subcommand or ""))
