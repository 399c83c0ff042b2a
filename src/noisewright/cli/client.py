"""`noisewright client`: what a local plan's clients do, in public whole numbers, verified."""

from __future__ import annotations

import click

from noisewright.cli.output import json_option, print_json, print_table
from noisewright.cli.randomize import local_plan


@click.command()
@click.argument("plan_file", metavar="PLAN", type=click.Path(dir_okay=False))
@click.option("--specification", is_flag=True, help="Print all that a client needs, as JSON.")
@json_option
def client(plan_file: str, specification: bool, as_json: bool) -> None:
    """Recompute from PLAN's own chances what every report spends, and export its client.

    The specification holds nothing private. A browser, a phone or an auditor can run it, and
    recompute ε, without trusting the library that wrote it:

    \b
      noisewright client survey.plan --specification > client.json

    docs/reference/randomizer.md says how it is read, and clients/javascript runs it.
    """
    import noisewright as nw
    from noisewright.local.randomizer.export import exported

    plan = local_plan(nw.load(plan_file), plan_file)
    document = exported(plan.format)
    if specification:
        print_json(document)
        return
    about = {name: value for name, value in document.items() if name != "specification"}
    about["report_bytes"] = plan.format.length
    about["nodes"] = [node["op"] for node in document["specification"]["nodes"]]
    if as_json:
        print_json(about)
        return
    spent = "exactly" if document["exact"] else "at most"
    promise = f"ε = {document['epsilon']!r}, δ = {document['delta']:g}"
    languages = "this library only" if document["continuous_noise"] else "any language"
    rows = [
        (f"every report spends {spent}", promise),
        ("values", document["cells"]),
        ("one report", f"{about['report_bytes']:,} bytes"),
        ("primitives", ", ".join(sorted(set(about["nodes"])))),
        ("runs in", languages),
        ("digest", document["digest"]),
    ]
    print_table("Client", ["", ""], rows)
