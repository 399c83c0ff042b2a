"""Pages of the site that are written from the code: every command's help, every public name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def on_files(files, config):
    """Add the generated pages to those of the folder."""
    from mkdocs.structure.files import File

    pages = {"reference/command-help.md": command_help(), "reference/api.md": api()}
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page, config, files) -> str:
    """Links to files beside the documentation are names on the site, which does not hold them."""
    outside = r"\[([^\]]+)\]\(((?:\.\./)+(?!docs/)[^)#]+)[^)]*\)"

    def plain(match: re.Match[str]) -> str:
        target = (Path(config["docs_dir"]) / page.file.src_path).parent / match.group(2)
        inside = Path(config["docs_dir"]) in target.resolve().parents
        return match.group(0) if inside else f"`{match.group(1)}`"

    return re.sub(outside, plain, markdown)


def command_help() -> str:
    """Every command as `--help` prints it."""
    return "\n".join(["# Commands in full", *_commands()])


def _commands() -> Iterator[str]:
    import click

    from noisewright.cli import COMMANDS, main

    context = click.Context(main, info_name="noisewright")
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        own = click.Context(command, info_name=name, parent=context)
        yield f"\n## noisewright {name}\n```text\n{command.get_help(own)}\n```"
        for inner in getattr(command, "commands", {}).values():
            inside = click.Context(inner, info_name=inner.name, parent=own)
            yield f"\n### noisewright {name} {inner.name}\n```text\n{inner.get_help(inside)}\n```"


def api() -> str:
    """Every public name with its signature and what it says of itself."""
    import noisewright as nw

    lines = ["# Python in full"]
    for name in sorted(nw.__all__):
        thing = getattr(nw, name)
        lines += [f"\n## nw.{name}", *_described(f"nw.{name}", thing)]
        if inspect.isclass(thing):
            for member, value in sorted(vars(thing).items()):
                if (
                    not member.startswith("_")
                    and inspect.getdoc(value)
                    and callable(value)
                ):
                    lines += [f"\n### {name}.{member}", *_described(member, value)]
    return "\n".join(lines)


def _described(name: str, thing: object) -> Iterator[str]:
    try:
        signature = str(inspect.signature(thing))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        signature = ""
    if signature:
        yield f"```text\n{name}{signature}\n```"
    text = inspect.getdoc(thing) or ""
    yield text.replace("<", "&lt;")
