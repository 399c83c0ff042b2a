"""Objects as people see them: one line in a console, a small table in a notebook."""

from __future__ import annotations

from html import escape

from noisewright.errors import shortened

_MOST_TEXT = 100


def counted(number: int) -> str:
    """A whole number of any size, short."""
    return f"{number:,}" if number < 10**15 else f"10^{len(str(number)) - 1}"


class Shown:
    """Shows what identifies an object in place of everything that it holds."""

    def __init_subclass__(cls) -> None:
        # Before `dataclass` looks: it writes a repr of all fields where a class has none itself.
        super().__init_subclass__()
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = Shown.__repr__  # type: ignore[method-assign]

    def _facts(self) -> list[tuple[str, str]]:
        """Names and texts of what identifies the object, none of it costly to find."""
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={shortened(text, _MOST_TEXT)}" for name, text in self._facts())
        return f"<{type(self).__name__}: {facts}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(text)}</td></tr>"
            for name, text in self._facts()
        )
        return f"<table><caption>{type(self).__name__}</caption>{rows}</table>"
