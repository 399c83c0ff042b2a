"""The law of a specification from its JSON alone, by listing every report: slow and obvious."""

from __future__ import annotations

import base64
import itertools
from fractions import Fraction
from math import comb, prod


def reports(document, value):
    """Chances of all possible reports (number, bytes after it) of a person in a cell."""
    return _law(document["nodes"], len(document["nodes"]) - 1, value)


def cells(document, place=-1):
    """Number of values that a person may hold, as the first law or router says."""
    node = document["nodes"][place]
    if node["op"] == "draw":
        return cells(document, node["of"][0])
    if node["op"] == "view":
        through = node["through"]
        if through["by"] == "axes":
            return prod(through["sizes"])
        return (
            len(through["table"])
            if through["by"] == "table"
            else int(through["domain"])
        )
    if node["op"] == "favour":
        owner = node["owner"]
        return prod(owner["sizes"]) if owner["by"] == "translate" else owner["cells"]
    return len(node["columns"]) if node["op"] == "grid" else int(node["cells"])


def outcomes(nodes, place):
    node = nodes[place]
    match node["op"]:
        case "draw":
            return sum(outcomes(nodes, child) for child in node["of"])
        case "view":
            return outcomes(nodes, node["of"])
        case "project":
            vectors = node.get("vectors") or range(node["base"] ** node["digits"])
            return len(vectors) * outcomes(nodes, node["of"])
        case "favour":
            return _outcomes_of(node["owner"])
        case "weigh":
            return len(node["rows"])
    return 1


def _law(nodes, place, cell):
    node = nodes[place]
    match node["op"]:
        case "draw":
            total, start = {}, 0
            for child, weight in zip(node["of"], node["weights"], strict=True):
                share = Fraction(int(weight), 2**64)
                _add(total, _law(nodes, child, cell), share, start)
                start += outcomes(nodes, child)
            return {report: chance for report, chance in total.items() if chance}
        case "view":
            return _law(nodes, node["of"], _seen(node["through"], cell))
        case "project":
            return _projected(nodes, node, cell)
        case "favour":
            return _favoured(node, cell)
        case "weigh":
            entries = [_entry(row, cell) for row in node["rows"]]
            return {(i, b""): Fraction(entry, 2**62) for i, entry in enumerate(entries)}
        case "subset":
            return _subset(node, cell)
        case "flip":
            return _flips(node, cell)
    raise NotImplementedError(node["op"])


def _add(total, law, share, start):
    for (number, payload), chance in law.items():
        key = number + start, payload
        total[key] = total.get(key, 0) + share * chance


def _seen(through, cell):
    match through["by"]:
        case "table":
            return through["table"][cell]
        case "blocks":
            return cell // through["width"]
    sizes, digits = through["sizes"], []
    for size in reversed(sizes):
        digits.insert(0, cell % size)
        cell //= size
    result = 0
    for axis in through["keep"]:
        result = result * sizes[axis] + digits[axis]
    return result


def _projected(nodes, node, cell):
    base, digits, child = node["base"], node["digits"], node["of"]
    if node.get("vectors"):
        listed = list(enumerate(map(int, node["vectors"])))
        shares = [Fraction(int(weight), 2**64) for weight in node["weights"]]
    else:
        listed = [(a, a) for a in range(1, base**digits)]
        shares = [Fraction(1, len(listed))] * len(listed)
    total, count = {}, outcomes(nodes, child)
    for (position, vector), share in zip(listed, shares, strict=True):
        pairs = [
            (vector // base**j % base, cell // base**j % base) for j in range(digits)
        ]
        seen = sum(a * u for a, u in pairs) % base
        _add(total, _law(nodes, child, seen), share, position * count)
    return {report: chance for report, chance in total.items() if chance}


def _outcomes_of(owner):
    match owner["by"]:
        case "self":
            return owner["cells"]
        case "parity":
            return owner["width"] * owner["blocks"]
        case "translate":
            return prod(owner["sizes"])
    return owner["outcomes"]


def _owns(owner, cell, outcome):
    match owner["by"]:
        case "self":
            return cell == outcome
        case "parity":
            block, column = divmod(cell, owner["width"] - 1)
            own, place = divmod(outcome, owner["width"])
            return own == block and (place & (column + 1)).bit_count() % 2 == 0
        case "translate":
            shift, stride = 0, 1
            for size in reversed(owner["sizes"]):
                shift += (
                    (cell // stride % size - outcome // stride % size) % size * stride
                )
                stride *= size
            return _bit(base64.b64decode(owner["pattern"]), shift)
    length = -(-owner["outcomes"] // 8)
    return _bit(base64.b64decode(owner["rows"])[cell * length :], outcome)


def _bit(data, place):
    return bool(data[place // 8] & (128 >> place % 8))


def _favoured(node, cell):
    every = range(_outcomes_of(node["owner"]))
    own = [o for o in every if _owns(node["owner"], cell, o)]
    chance = Fraction(int(node["threshold"]), 2**64)
    other = (1 - chance) / (len(every) - len(own))
    law = {(o, b""): other for o in every}
    return law | {(o, b""): chance / len(own) for o in own}


def _entry(row, cell):
    if isinstance(row, list):
        return int(row[cell])
    return int(row["high"] if _bit(base64.b64decode(row["bits"]), cell) else row["low"])


def _packed(members, count):
    text = "".join("1" if cell in members else "0" for cell in range(count))
    text += "0" * (-count % 8)
    return int(text, 2).to_bytes(len(text) // 8, "big")


def _subset(node, cell):
    n, d, chance = node["cells"], node["size"], Fraction(int(node["threshold"]), 2**64)
    law = {}
    for members in itertools.combinations(range(n), d):
        inside = cell in members
        ways = comb(n - 1, d - 1) if inside else comb(n - 1, d)
        law[0, _packed(members, n)] = (chance if inside else 1 - chance) / ways
    return law


def _flips(node, cell):
    n, law = node["cells"], {}
    ones = [
        Fraction(int(node["own" if v == cell else "other"]), 2**64) for v in range(n)
    ]
    for bits in itertools.product([False, True], repeat=n):
        members = [v for v in range(n) if bits[v]]
        law[0, _packed(members, n)] = prod(
            p if b else 1 - p for p, b in zip(ones, bits, strict=True)
        )
    return law


def worst_ratio(document):
    """Largest ratio between chances of one report under two cells."""
    laws = [reports(document, cell) for cell in range(cells(document))]
    listed = set().union(*laws)
    return max(
        Fraction(max(law.get(o, 0) for law in laws), min(law.get(o, 0) for law in laws))
        for o in listed
    )
