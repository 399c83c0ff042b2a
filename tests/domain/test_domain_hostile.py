"""Schemas and questions may come from anybody: a clear error, soon, or what was written."""

from __future__ import annotations

import copy
import datetime as dt
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from noisewright.cli import main
from noisewright.domain import Domain, schema
from noisewright.domain.schema import load_yaml
from noisewright.errors import InvalidParameter, NoisewrightError, shown_value
from noisewright.workload.questions.spec import questions

# a bomb takes hours or all memory; anything near this is a fault, not a slow machine
SECONDS = 20


def bomb(levels: int = 40, fan: int = 9) -> str:
    """Lines of lists, each naming the one before many times."""
    lines = ["a0: &a0 [x, x]"]
    lines += [
        f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * fan)}]" for k in range(1, levels)
    ]
    return "\n".join(lines) + "\n"


CHAIN = "".join(f"- &c{k} [{f'*c{k - 1}' if k else 'x'}]\n" for k in range(3000))
TEXTS = {
    "alias bomb": bomb(),
    "aliases of a long text": f"a: &a {'x' * 10_000}\nb: [{', '.join(['*a'] * 5_000)}]\n",
    "nested lists": "a:\n" + "[" * 100_000,
    "nested mappings": "\n" + "{a: " * 50_000,
    "nested blocks": "\n" + "- " * 20_000 + "x\n",
    "nested by aliases": CHAIN,
    "itself": "a: &a [*a]\n",
    "itself as a key": "&a {*a : 1}\n\n",
    "a list as a key": "? [a]\n: b\n",
    "many keys": "".join(f"k{k}: 1\n" for k in range(5_000)),
    "a long text": "a: " + "x" * 2**23 + "\n",
    "a tag of Python": "a: !!python/object/apply:os.system [exit]\nb: 1\n",
    "no whole number": "a: !!int x\nb: 1\n",
    "no number": "a: !!float x\nb: 1\n",
    "no truth value": "a: !!bool maybe\nb: 1\n",
    "no moment": "a: !!timestamp x\nb: 1\n",
    "a merge of nothing": "a: {!!merge x: 1}\nb: 1\n",
    "many digits": "a: " + "9" * 10_000 + "\nb: 1\n",
    "a control character": "a: \x07\nb: 1\n",
    "a lone surrogate": 'a: "\\ud800"\nb: "\ud800"\n',
    "nothing": "\n\n",
    "documents": "--- 1\n--- 2\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_hostile_texts_are_refused_soon_and_in_few_words(name: str) -> None:
    domain = Domain.from_yaml("attributes:\n  - {name: a, kind: boolean}\n")
    for read in (Domain.from_yaml, lambda text: questions(text, domain)):
        start = time.monotonic()
        with pytest.raises(NoisewrightError) as caught:
            read(TEXTS[name])
        assert time.monotonic() - start < SECONDS
        assert len(str(caught.value)) < 1000


def test_anchors_within_reason_are_read() -> None:
    text = """
attributes:
  - {name: a, kind: categorical, values: &values [x, y, z]}
  - {name: b, kind: categorical, values: *values}
"""
    assert Domain.from_yaml(text)["b"].labels == ("x", "y", "z")


def test_a_message_shows_a_value_without_writing_it_out() -> None:
    value: Any = ["x", "y"]
    for _ in range(60):
        value = [value] * 9
    assert InvalidParameter("a", value, "must be small").args[0].startswith("a=[[[[")
    assert len(shown_value(value)) == 80
    loop: list[Any] = []
    loop.append(loop)
    assert shown_value(loop).startswith("[[[[")
    assert len(shown_value(7**20_000)) <= 80
    assert len(shown_value("é" * 10**7)) == 80


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates(),
    lambda inner: (
        st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner)
        | st.sets(st.integers()) | st.frozensets(st.text())
    ),
)  # fmt: skip


@given(value=PLAIN)
def test_short_values_are_shown_as_python_shows_them(value: Any) -> None:
    whole = repr(value)
    assert shown_value(value) == (whole if len(whole) <= 80 else whole[:77] + "...")


SCHEMA: dict[str, Any] = {
    "reviewed": True,
    "attributes": [
        {"name": "age", "kind": "numeric", "edges": [0, 18, 65], "integer": True, "lower": 0,
         "outside": "clip", "missing": "other", "levels": {"band": [0, 18, 65]}},
        {"name": "sex", "kind": "categorical", "values": ["F", "M"], "outside": "other",
         "other": "else", "levels": {"any": {"all": ["F", "M"]}}},
        {"name": "citizen", "kind": "boolean"},
        {"name": "day", "kind": "date", "start": "2024-01-01", "end": "2024-03-01",
         "period": "month", "levels": {"year": "year"}},
    ],
    "impossible": [{"age": {"below": 18}, "sex": ["M"]}],
}  # fmt: skip
QUERIES: dict[str, Any] = {
    "queries": [
        {"cdf": "age", "by": ["sex"], "weight": 2, "name": "ages"},
        {"marginals": 2, "of": ["age", "sex", "citizen"]},
        {"count": 'age >= 18 and sex == "F"', "label": "women"},
        {"ranges": "day"},
        {"total": True},
    ]
}
JUNK = [
    None, True, 0, -1, 1.5, 10**400, float("nan"), float("inf"), "", "x", "age", "\0", "2024-13-01",
    "99999-01-01", [], [[]], [None], [True], ["x", "x"], [1, "x"], [0, 1, "x"], [[0, 1]], {},
    {"x": 1}, {"x": []}, {"x": ["x"]}, {1: 2}, {"below": None}, {"from": "x"}, {"below": [1]},
    dt.date(1, 1, 1), b"x", "(" * 500, "not " * 3000 + "citizen", "age == " + "-" * 3000 + "1",
    "age >= 1e999", "age in []", "age in 5", "age == [1]", "age == 'x'", "sex == 1j", "age < None",
    "age == age", "citizen.x", "day >= '2024-02-30'", "x\\d == 1", "age == " + "9" * 5000,
]  # fmt: skip


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something can be put: every entry of every list and mapping."""
    keys: list[Any] = []
    if isinstance(document, dict):
        keys = list(document)
    elif isinstance(document, list):
        keys = list(range(len(document)))
    below = [place for key in keys for place in places(document[key], (*path, key))]
    return [*((*path, key) for key in keys), *below]


def changed(document: Any, path: tuple[Any, ...], junk: Any) -> Any:
    result = copy.deepcopy(document)
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = junk
    return result


def outcome(act: Any) -> str:
    try:
        act()
    except NoisewrightError as error:
        return "refused" if len(str(error)) <= 2000 else "refused at length"
    return "read"


def test_junk_in_any_place_of_a_schema_is_read_or_refused() -> None:
    for path in places(SCHEMA):
        for junk in JUNK:
            document = changed(SCHEMA, path, junk)
            told = outcome(
                lambda document=document: Domain.from_dict(document).fingerprint
            )
            assert told in ("read", "refused"), (path, junk)
    assert outcome(lambda: Domain.from_dict(SCHEMA)) == "read"


def test_junk_in_any_place_of_a_question_is_read_or_refused() -> None:
    domain = Domain.from_dict(SCHEMA)
    for path in places(QUERIES):
        for junk in JUNK:
            document = changed(QUERIES, path, junk)
            told = outcome(lambda document=document: questions(document, domain))
            assert told in ("read", "refused"), (path, junk)
    assert outcome(lambda: questions(QUERIES, domain)) == "read"


@settings(max_examples=200)
@given(data=st.data())
def test_any_text_is_read_or_refused(data: st.DataObject) -> None:
    alphabet = st.sampled_from(
        [*"[]{}:,-?&*!|>'\"%@`#~ \n\tab01.", "&a", "*a", "!!", "- ", ": "]
    )
    text = "".join(data.draw(st.lists(alphabet, max_size=60))) + "\n"
    assert outcome(lambda: load_yaml(text)) in ("read", "refused")


def test_questions_of_too_many_cells_are_refused() -> None:
    entries = [
        {"name": f"a{k}", "kind": "numeric", "edges": list(range(60))}
        for k in range(40)
    ]
    domain = Domain.from_dict({"attributes": entries})
    predicate = " and ".join(f"a{k} >= 1" for k in range(40))
    for spec in ({"count": predicate}, {"marginals": 20}):
        assert (
            outcome(lambda spec=spec: questions({"queries": [spec]}, domain))
            == "refused"
        )


@pytest.mark.parametrize("name", ["alias bomb", "nested lists", "no whole number"])
def test_the_command_line_exits_with_2(name: str, tmp_path: Path) -> None:
    bad, good = tmp_path / "bad.yaml", tmp_path / "good.yaml"
    bad.write_text(TEXTS[name])
    good.write_text("attributes:\n  - {name: a, kind: boolean}\n")
    budget = ["--rho", "1"]
    for command in (
        ["schema", "check", str(bad)],
        ["plan", "--queries", str(bad), "--schema", str(good), *budget],
        ["plan", "--queries", str(good), "--schema", str(bad), *budget],
        ["compare", "--queries", str(bad), "--schema", str(good), *budget],
    ):
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 2
        assert len(result.stderr) < 1000


def test_a_draft_stays_one_until_it_says_that_it_was_reviewed() -> None:
    draft = Domain(Domain.from_dict(SCHEMA).attributes, reviewed=False)
    text = draft.to_yaml()
    lines = text.splitlines(keepends=True)
    for number in range(len(lines)):
        rest = "".join(lines[:number] + lines[number + 1 :])
        try:
            again = Domain.from_yaml(rest)
        except NoisewrightError:
            continue
        assert not again.reviewed, f"without line {number} the draft counts as reviewed"
    assert Domain.from_yaml(text) == draft
    assert draft.fingerprint == Domain(draft.attributes).fingerprint
    assert Domain.from_yaml(text.replace("reviewed: false", "reviewed: true")).reviewed
    marked = draft.to_dict()
    del marked["reviewed"]
    for drafted in (True, None, 1, "no"):
        marked["attributes"] = [dict(a) for a in draft.to_dict()["attributes"]]
        marked["attributes"][0]["drafted"] = drafted
        assert outcome(lambda: Domain.from_dict(marked).require_reviewed()) == "refused"


def test_a_schema_written_by_hand_needs_no_mark() -> None:
    assert Domain.from_yaml("attributes:\n  - {name: a, kind: boolean}\n").reviewed


def test_drafts_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    table, draft = tmp_path / "people.csv", tmp_path / "draft.yaml"
    table.write_text("age\n" + "\n".join(map(str, np.arange(50))) + "\n")
    draft.write_text("in the way, readable by all")
    draft.chmod(0o644)
    result = CliRunner().invoke(
        main, ["schema", "suggest", str(table), "-o", str(draft)]
    )
    assert result.exit_code == 0
    assert draft.stat().st_mode & 0o777 == 0o600
    without = "".join(
        line
        for line in draft.read_text().splitlines(keepends=True)
        if line[:9] != "reviewed:"
    )
    assert "reviewed: " not in "".join(k for k in without.splitlines() if k[:1] != "#")
    with pytest.raises(NoisewrightError, match="draft"):
        Domain.from_yaml(without).require_reviewed()


def test_more_attributes_or_values_than_are_read_in_seconds_are_refused(
    monkeypatch,
) -> None:
    """Before they are all read: what is refused at the limit costs what the limit costs."""
    entry = "  - {name: a, kind: boolean}\n"
    with pytest.raises(NoisewrightError, match=r"more than 10,000 mappings.*attribute"):
        Domain.from_yaml("attributes:\n" + 60_000 * entry)
    assert len(load_yaml("a:\n" + 2_000 * entry)["a"]) == 2_000
    monkeypatch.setattr(schema, "_MOST_VALUES", 1_000)
    assert len(load_yaml("[" + "1," * 997 + "1]\n")) == 998
    with pytest.raises(NoisewrightError, match="more than 1,000 values"):
        load_yaml("[" + "1," * 1_000 + "1]\n")


LONG = "x" * 201
BOTH = {"name": "a", "kind": "categorical", "values": ["b", "c"]}


@pytest.mark.parametrize(
    ("attribute", "query"),
    [
        ({"name": LONG, "kind": "boolean"}, {}),
        ({"name": "a", "kind": "categorical", "values": ["b", LONG]}, {}),
        ({"name": "a", "kind": "boolean", "outside": "other", "other": LONG}, {}),
        ({**BOTH, "levels": {LONG: {"d": ["b", "c"]}}}, {}),
        ({**BOTH, "levels": {"l": {LONG: ["b", "c"]}}}, {}),
        ({"name": "a", "kind": "boolean"}, {"marginal": "a", "name": LONG}),
        ({"name": "a", "kind": "boolean"}, {"count": "a == true", "label": LONG}),
        ({"name": "a", "kind": "boolean"}, {"count": " or ".join(["a == true"] * 400)}),
    ],
)  # fmt: skip
def test_names_and_labels_have_a_length(
    attribute: dict[str, Any], query: dict[str, Any]
) -> None:
    """Whatever is shown fits a page; the refusal itself is short and says how long is too long."""

    def read() -> None:
        domain = Domain.from_dict({"reviewed": True, "attributes": [attribute]})
        questions({"queries": [query or {"marginal": "a"}]}, domain)

    with pytest.raises(
        NoisewrightError, match=r"characters, where [0-9,]+ are the most"
    ) as error:
        read()
    assert len(str(error.value)) < 200


def test_labels_of_the_most_length_are_taken() -> None:
    values = ["x" * 200, "y" * 200]
    attribute = {"name": "n" * 200, "kind": "categorical", "values": values}
    assert Domain.from_dict({"reviewed": True, "attributes": [attribute]}).shape == (2,)
