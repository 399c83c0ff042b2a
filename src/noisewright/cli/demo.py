"""`noisewright demo`: see the whole job done."""

from __future__ import annotations

import click

from noisewright.cli.output import json_option, print_json, print_table, progress


@click.command()
@click.option(
    "-o", "--output", type=click.Path(file_okay=False), default="demo-output", show_default=True,
    help="Folder for the table, the plan, the answers and the report.",
)  # fmt: skip
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="Privacy budget ε.")
@click.option("--delta", type=float, default=1e-9, show_default=True, help="Probability δ.")
@json_option
def demo(output: str, epsilon: float, delta: float, as_json: bool) -> None:
    """Make a table of 50,000 synthetic people and answer questions about them privately.

    CDFs of age and income and all two-way tables, with a report that sets the private answers
    beside the true ones: the people do not exist, so their truth may be shown.
    """
    from noisewright.demo.run import run
    from noisewright.privacy.budget import Privacy

    privacy = Privacy(epsilon=epsilon, delta=delta)
    with progress("planning, counting, adding noise, drawing"):
        done = run(output, privacy)
    if as_json:
        files = {name: str(path) for name, path in done.files.items()}
        print_json({**done.plan.summary(), "files": files})
        return
    print_table(
        f"Expected error, in people, at ε = {epsilon:g} and δ = {delta:g}",
        ["table", "queries", "rmse", "largest", "95 % within ±", "all at once ±"],
        [(n, q, *(round(v, 1) for v in rest)) for n, q, *rest in done.plan.table_errors()],
    )
    ratio = done.plan.forecast().ratio
    if ratio is not None:
        click.echo(
            f"No linear strategy under this noise has less than 1/{ratio:.4f} of this error."
        )
    for name in ("answers.csv", "report.html"):
        click.echo(f"written: {done.files[name]}")
