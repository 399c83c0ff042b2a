"""Schemas: strict reading, faithful writing, refusals that say what to do."""

import json
import re
from pathlib import Path

import pytest

from noisewright.domain import Boolean, Categorical, Date, Domain, Numeric
from noisewright.errors import DomainError, FileFormatError, InvalidParameter

SCHEMA = """
attributes:
  - name: age
    kind: numeric
    edges: [0, 18, 65, 120]
    integer: true
    outside: clip
    missing: other
  - {name: country, kind: categorical, values: [NO, on, 01, '1e5', null value], outside: other}
  - {name: income, kind: numeric, edges: [-inf, 0, 1e4, inf], lower: -100, upper: 50000}
  - {name: citizen, kind: boolean}
  - {name: admitted, kind: date, start: 2024-01-15, end: 2024-12-31, period: month}
"""


def test_a_schema_is_read_as_written() -> None:
    domain = Domain.from_yaml(SCHEMA)
    assert domain.names == ("age", "country", "income", "citizen", "admitted")
    assert domain["country"].labels == ("NO", "on", "01", "1e5", "null value", "other")
    assert domain["age"].labels == ("0–17", "18–64", "65–120", "other")
    assert domain["income"].labels == ("<0", "[0, 10000)", "≥10000")
    assert domain["admitted"].labels[:2] == ("2024-01", "2024-02")
    assert domain.reviewed


def test_schemas_survive_yaml_json_and_files(tmp_path) -> None:
    domain = Domain.from_yaml(SCHEMA)
    path = tmp_path / "schema.yaml"
    path.write_text(domain.to_yaml(), encoding="utf-8")
    text = json.dumps(domain.to_dict(), allow_nan=False)
    for again in (
        Domain.from_yaml(domain.to_yaml()),
        Domain.from_yaml(path),
        Domain.from_yaml(str(path)),
        Domain.from_dict(json.loads(text)),
        Domain.from_yaml(text + "\n"),
    ):
        assert again == domain
        assert hash(again) == hash(domain)
        assert again.fingerprint == domain.fingerprint


def test_the_fingerprint_follows_the_meaning_of_the_cells() -> None:
    domain = Domain([Categorical("sex", ["F", "M"]), Boolean("citizen")])
    assert domain.fingerprint == Domain(domain.attributes, reviewed=False).fingerprint
    assert domain.fingerprint != domain.project(["citizen", "sex"]).fingerprint


def test_a_draft_loads_but_is_refused_for_use() -> None:
    draft = Domain.from_yaml("reviewed: false" + SCHEMA)
    with pytest.raises(DomainError, match="reviewed: true"):
        draft.require_reviewed()
    with pytest.raises(DomainError, match="draft"):
        draft.project(["age"]).require_reviewed()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("attributes: []\n", "at least one attribute"),
        (
            "attributes: [{name: a, kind: boolean}, {name: a, kind: boolean}]\n",
            r"\['a'\].*names",
        ),
        ("attributes: [{name: a, kind: boolean, vals: [1]}]\n", "unknown keys vals"),
        ("attribute: []\nattributes: []\n", "unknown keys attribute;"),
        ("attributes: [{name: a, kind: boolean, name: b}]\n", "name is given twice"),
        ("attributes: [{name: a, kind: text}]\n", "attribute 'a' must have a kind"),
        ("attributes: [{name: a, kind: categorical}]\n", "lacks values"),
        ("attributes: [{kind: boolean}]\n", "lacks name"),
        ("attributes: {a: boolean}\n", "must be a list"),
        ("- 1\n- 2\n", "must be a mapping"),
        (
            "attributes: [{name: a, kind: boolean}]\nreviewed: maybe\n",
            "reviewed='maybe'",
        ),
        ("attributes: [{name: a, kind: numeric, edges: [0, ten]}]\n", "a.edges='ten'"),
        (
            "attributes: [{name: a, kind: date, start: 2024-02-30, end: 2024-03-01}]\n",
            "a.start",
        ),
    ],
)
def test_a_malformed_schema_is_refused(text: str, message: str) -> None:
    with pytest.raises((DomainError, InvalidParameter), match=message):
        Domain.from_yaml(text)


def test_files_that_cannot_be_read(tmp_path) -> None:
    with pytest.raises(FileFormatError, match="No such file"):
        Domain.from_yaml(tmp_path / "absent.yaml")
    with pytest.raises(FileFormatError, match="line 3"):
        Domain.from_yaml("attributes:\n  - {name: [\n")
    (tmp_path / "latin").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileFormatError, match="UTF-8"):
        Domain.from_yaml(tmp_path / "latin")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Categorical("a", []), "at least one value"),
        (lambda: Categorical("a", "FM"), "at least one value"),
        (lambda: Categorical("a", [True]), "quote it"),
        (lambda: Categorical("a", [0.5]), "text or integers"),  # type: ignore[list-item]
        (lambda: Categorical("a", ["x", "x"]), r"\['x'\] must differ"),
        (lambda: Categorical("a", [1, "1"]), r"\['1'\] must differ"),
        (lambda: Categorical("a", [2**53]), "2\\^53"),
        (
            lambda: Categorical("a", ["other"], outside="other"),
            "a.other='other' must differ",
        ),
        (lambda: Categorical("a", ["x"], outside="clip"), "one of other, error"),
        (lambda: Categorical("a", ["x"], missing="clip"), "other or error"),  # type: ignore[arg-type]
        (lambda: Categorical("", ["x"]), "not empty"),
        (lambda: Numeric("a", [1]), "at least two"),
        (lambda: Numeric("a", [2, 1]), "must increase"),
        (lambda: Numeric("a", [1, 1, 2]), "must increase"),
        (lambda: Numeric("a", [0, float("nan")]), "must be a number"),
        (lambda: Numeric("a", [0, float("inf"), float("inf")]), "only at the ends"),
        (lambda: Numeric("a", [0, 1.5], integer=True), "whole numbers"),
        (lambda: Numeric("a", [0, 1], lower=3), "must be <= upper"),
        (lambda: Numeric("a", [0, 1], upper=float("inf")), "must be finite"),
        (lambda: Numeric.integers("a", 3, 1), "first <= last"),
        (lambda: Date("a", "2024-02-01", "2024-01-01"), "must not come after"),
        (lambda: Date("a", "2024-02-01", "9999-01-01"), "must come before"),
        (lambda: Date("a", "2024-01-01", "2024-01-02", "hour"), "one of day, week"),  # type: ignore[arg-type]
    ],
)
def test_a_malformed_attribute_is_refused(build, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        build()


def test_the_schemas_in_the_documentation_are_schemas() -> None:
    page = Path(__file__).parents[2] / "docs/how-to/schema.md"
    blocks = re.findall(
        r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
    )
    assert len(blocks) >= 3
    for block in blocks:
        domain = Domain.from_yaml(block)
        assert Domain.from_yaml(domain.to_yaml()) == domain
