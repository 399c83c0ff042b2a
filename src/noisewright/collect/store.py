"""What the collector keeps: campaigns, reports in no order, and what they add up to.

A report, the burning of its invitation and its place in the statistics are one transaction:
whatever was acknowledged is there, once, and nothing is half there.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import msgspec
import numpy as np

from noisewright.arrays import IntArray
from noisewright.collect.campaign import Campaign, Outcome, Submission, Terms
from noisewright.collect.databases import Database, Named, Row
from noisewright.errors import InvalidParameter
from noisewright.local.reports.aggregate import REASONS, Aggregate
from noisewright.local.reports.format import HEADER

_CHUNK = 512
"""Whole numbers of one row of a tally: a page of the database."""

_CAMPAIGN = "SELECT number, terms, plan, closed FROM campaigns WHERE name = ?"

Level = Literal["admin", "view"]
"""What a key allows: everything, or to look at what reports add up to."""

_SESSION_SECONDS = 12 * 3600  # a day's work; the key itself never lies in a browser

_NEVER = 2**62  # a second after the last

_NAMED = 16  # bytes of the name under which a report is kept


class Store:
    """All that is kept, through one connection; used by one thread."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._salts: dict[int, bytes] = {}

    # --- campaigns ----------------------------------------------------------------------------

    def publish(self, campaign: Campaign) -> Campaign:
        """Keep a campaign; the same one again is no news, another of its name is refused."""
        terms = msgspec.json.encode(campaign.terms, order="sorted")
        with self.database.transaction():
            rows = self.database.run(_CAMPAIGN, [campaign.name])
            if not rows:
                last = self.database.run(
                    "SELECT COALESCE(MAX(number), 0) FROM campaigns"
                )[0][0]
                salt = secrets.token_bytes(32)
                self.database.run(
                    "INSERT INTO campaigns (number, name, terms, plan, salt) "
                    "VALUES (?, ?, ?, ?, ?)",
                    [last + 1, campaign.name, terms, campaign.content, salt],
                )

                return replace(campaign, number=last + 1)

        number, kept, plan, closed = rows[0]
        if (bytes(kept), bytes(plan)) != (terms, campaign.content):
            raise InvalidParameter(
                "name", campaign.name, "is published with another plan or other terms",
                "published campaigns never change; choose another name",
            )  # fmt: skip

        return replace(campaign, number=number, closed=bool(closed))

    def campaigns(self) -> list[tuple[int, str, bool]]:
        """Number, name and whether it is closed, of every campaign."""
        rows = self._read("SELECT number, name, closed FROM campaigns ORDER BY number")
        return [(number, name, bool(closed)) for number, name, closed in rows]

    def campaign(self, name: str) -> Campaign | None:
        """The campaign of a name, checked like a file from anybody."""
        rows = self._read(_CAMPAIGN, name)
        if not rows:
            return None

        number, terms, plan, closed = rows[0]
        declared = msgspec.json.decode(bytes(terms), type=Terms)
        return Campaign.published(declared, bytes(plan), number, bool(closed))

    def close_campaign(self, number: int) -> None:
        """Take no more reports."""
        self._write("UPDATE campaigns SET closed = 1 WHERE number = ?", number)

    # --- keys and invitations -----------------------------------------------------------------

    def add_key(self, level: Level, *, session: bool = False) -> str:
        """A new secret, of which only a hash is kept: a key, or a session that ends by itself."""
        secret = secrets.token_urlsafe(32)
        now = int(time.time())
        if level == "admin" and not session:
            self._write("INSERT INTO admin_keys (hash) VALUES (?)", key_hash(secret))
            return secret

        with self.database.transaction():
            self.database.run("DELETE FROM passes WHERE expires <= ?", [now])
            self.database.run(
                "INSERT INTO passes (hash, level, expires) VALUES (?, ?, ?)",
                [key_hash(secret), level, now + _SESSION_SECONDS if session else None],
            )

        return secret

    def end_session(self, secret: str) -> None:
        """Forget a session."""
        ended = "DELETE FROM passes WHERE hash = ? AND expires IS NOT NULL"
        self._write(ended, key_hash(secret))

    def levels(self, *, sessions: bool = True) -> dict[bytes, Level]:
        """The hashes of all keys, and of open sessions, each with what it allows."""
        now = int(time.time()) if sessions else _NEVER
        with self.database.transaction(writes=False):
            admins = self.database.run("SELECT hash FROM admin_keys")
            passes = self.database.run(
                "SELECT hash, level FROM passes WHERE expires IS NULL OR expires > ?",
                [now],
            )

        known: dict[bytes, Level] = {bytes(digest): level for digest, level in passes}
        return known | {bytes(row[0]): "admin" for row in admins}

    def invite(self, number: int, count: int) -> list[str]:
        """New one-time tokens of a campaign, of which only hashes are kept, in their own order."""
        tokens = [secrets.token_urlsafe(16) for _ in range(count)]
        with self.database.transaction():
            for name in sorted(key_hash(token) for token in tokens):
                self.database.run(
                    "INSERT INTO tokens (campaign, hash) VALUES (?, ?)", [number, name]
                )

        return tokens

    # --- reports ------------------------------------------------------------------------------

    def commit(self, batch: Sequence[Submission]) -> list[Outcome]:
        """Keep and count reports, all in one transaction; what became of each of them."""
        groups: dict[tuple[int, str], list[int]] = defaultdict(list)
        for place, each in enumerate(batch):
            groups[each.campaign.number, each.round].append(place)

        outcomes = [Outcome.NOTED] * len(batch)
        with self.database.transaction():
            for _, places in sorted(groups.items()):
                self._set_aside(
                    [batch[place] for place in places if batch[place].aside]
                )
                sent = [place for place in places if not batch[place].aside]
                added = self._taken([batch[place] for place in sent]) if sent else []
                for place, outcome in zip(sent, added, strict=True):
                    outcomes[place] = outcome

        return outcomes

    def _set_aside(self, part: Sequence[Submission]) -> None:
        if part:
            counted = part[0].campaign.empty(part[0].round)
            for each in part:
                counted.set_aside[str(each.aside)] += 1
            self._count(part[0].campaign, part[0].round, counted)

    def _taken(self, part: Sequence[Submission]) -> list[Outcome]:
        campaign = part[0].campaign
        round_name = part[0].round
        format = campaign.plan.format
        joined = np.frombuffer(b"".join(each.report for each in part), np.uint8)
        rows = joined.reshape(len(part), -1)
        assert rows.shape[1] == format.length, "the door lets no other length in"
        assert format.length > HEADER
        numbers = format.decode(rows)
        possible = format.collector.valid(numbers)
        names = [self._name(campaign.number, s.nonce) for s in part]
        outcomes = [Outcome.REPEATED if ok else Outcome.IMPOSSIBLE for ok in possible]
        wanted = dict.fromkeys(n for n, ok in zip(names, possible, strict=True) if ok)
        if campaign.terms.invitations:
            wanted = self._invited(part, names, outcomes, wanted)

        places = {name: place for place, name in reversed(list(enumerate(names)))}
        fresh = self._insert(
            campaign, round_name, {n: part[places[n]].report for n in wanted}
        )
        new = sorted(places[name] for name in fresh)

        for place in new:
            outcomes[place] = Outcome.ACCEPTED

        counted = campaign.empty(round_name)
        if new:
            counted.add(numbers[new])

        counted.set_aside["out_of_range"] += int((~possible).sum())
        self._count(campaign, round_name, counted)
        return outcomes

    def _name(self, number: int, nonce: bytes) -> bytes:
        """Where a report is kept: a keyed hash of its nonce, so that reports lie shuffled."""
        if number not in self._salts:
            row = self.database.run(
                "SELECT salt FROM campaigns WHERE number = ?", [number]
            )
            self._salts[number] = bytes(row[0][0])
        return hmac.digest(self._salts[number], nonce, "sha256")[:_NAMED]

    def _insert(
        self, campaign: Campaign, round_name: str, reports: dict[bytes, bytes]
    ) -> set[bytes]:
        """Keep reports by name; the names that were not there before."""
        if not reports:
            return set()

        # one order for all workers, who then cannot block each other
        ordered = dict(sorted(reports.items()))
        keeps = campaign.terms.keep_reports
        return self.database.keep(Named(campaign.number, round_name, ordered, keeps))

    def _known(
        self, campaign: Campaign, round_name: str, names: Collection[bytes]
    ) -> set[bytes]:
        rows = self.database.run(
            "SELECT name FROM reports WHERE campaign = ? AND round = ? "
            f"AND name IN ({_marks(names)})",
            [campaign.number, round_name, *names],
        )
        return {bytes(row[0]) for row in rows}

    def _invited(
        self,
        part: Sequence[Submission],
        names: Sequence[bytes],
        outcomes: list[Outcome],
        wanted: dict[bytes, None],
    ) -> dict[bytes, None]:
        """Burn the tokens of new reports; the names of those that had one."""
        campaign = part[0].campaign
        round_name = part[0].round
        if not wanted:
            return wanted

        known = self._known(campaign, round_name, wanted)
        claims: dict[bytes, bytes] = {}  # the first report that brings a token has it
        for name, each in zip(names, part, strict=True):
            if name in wanted and name not in known and each.token is not None:
                claims.setdefault(each.token, name)

        invited: set[bytes] = set()
        if claims:
            rows = self.database.run(
                "UPDATE tokens SET burnt = 1 WHERE campaign = ? AND burnt = 0 "
                f"AND hash IN ({_marks(claims)}) RETURNING hash",
                [campaign.number, *sorted(claims)],
            )
            invited = {claims[bytes(row[0])] for row in rows}

        # Another worker may have taken the same report in between, with the same token.
        known |= self._known(campaign, round_name, wanted)
        for place, name in enumerate(names):
            if name in wanted and name not in known | invited:
                outcomes[place] = Outcome.UNINVITED

        return {name: None for name in wanted if name in invited}

    # --- statistics ---------------------------------------------------------------------------

    def _count(self, campaign: Campaign, round_name: str, added: Aggregate) -> None:
        """Add to the tallies of this connection, which no other one touches."""
        numbers = _flat(added)
        chunks = np.unique(np.flatnonzero(numbers) // _CHUNK).tolist()
        if not chunks:
            return

        place = [campaign.number, round_name, self.database.shard]
        rows = self.database.run(
            "SELECT chunk, counts FROM tallies WHERE campaign = ? AND round = ? AND shard = ? "
            f"AND chunk IN ({_marks(chunks)})",
            [*place, *chunks],
        )
        _add(numbers, rows)

        values: list[object] = []
        for chunk in chunks:
            values += [*place, chunk, numbers[_part(chunk)].tobytes()]

        marks = ", ".join(["(?, ?, ?, ?, ?)"] * len(chunks))
        self.database.run(
            f"INSERT INTO tallies (campaign, round, shard, chunk, counts) VALUES {marks} "
            "ON CONFLICT (campaign, round, shard, chunk) DO UPDATE SET counts = excluded.counts",
            values,
        )

    def rounds(self, campaign: Campaign) -> list[str]:
        """The rounds in which anything came, the latest last."""
        asked = "SELECT DISTINCT round FROM tallies WHERE campaign = ? ORDER BY round"
        return [row[0] for row in self._read(asked, campaign.number)]

    def aggregate(self, campaign: Campaign, round_name: str = "") -> Aggregate:
        """What the reports of a round add up to; no report is read."""
        empty = campaign.empty(round_name)
        numbers = _flat(empty)
        asked = "SELECT chunk, counts FROM tallies WHERE campaign = ? AND round = ?"
        _add(numbers, self._read(asked, campaign.number, round_name))
        return _unflat(empty, numbers)

    def reports(self, campaign: Campaign, round_name: str = "") -> Iterator[bytes]:
        """The reports of a round that were kept, in the order of their names: shuffled."""
        last = b""
        while True:
            rows = self._read(
                "SELECT name, report FROM reports WHERE campaign = ? AND round = ? "
                "AND name > ? AND report IS NOT NULL ORDER BY name LIMIT 10000",
                *(campaign.number, round_name, last),
            )
            if not rows:
                return
            yield from (bytes(report) for _, report in rows)
            last = bytes(rows[-1][0])

    # --- the database -------------------------------------------------------------------------

    def _read(self, text: str, *values: object) -> list[Row]:
        """The rows of one question, in a transaction of its own."""
        with self.database.transaction(writes=False):
            return self.database.run(text, values)

    def _write(self, text: str, *values: object) -> None:
        """One change, in a transaction of its own."""
        with self.database.transaction():
            self.database.run(text, values)

    def close(self) -> None:
        """Close the connection."""
        self.database.close()


def _marks(values: Collection[object]) -> str:
    """A mark for every value of a list."""
    return ", ".join("?" * len(values))


def _part(chunk: int) -> slice:
    """The numbers of a chunk."""
    return slice(chunk * _CHUNK, (chunk + 1) * _CHUNK)


def _add(numbers: IntArray, rows: Sequence[Row]) -> None:
    """Add chunks, each with its number."""
    for chunk, counts in rows:
        numbers[_part(chunk)] += np.frombuffer(bytes(counts), np.int64)


def key_hash(secret: str) -> bytes:
    """What is kept of a key or token. They are random and long: no slow hash is needed."""
    return hashlib.sha256(secret.encode()).digest()


def _flat(aggregate: Aggregate) -> IntArray:
    """All whole numbers of an aggregate in one row."""
    aside = [aggregate.set_aside[reason] for reason in REASONS]
    return np.concatenate(
        [aggregate.group_people, np.array(aside), aggregate.tally.ravel()]
    )


def _unflat(empty: Aggregate, numbers: IntArray) -> Aggregate:
    groups = empty.groups
    people, aside, tally = np.split(numbers, [groups, groups + len(REASONS)])
    empty.group_people, empty.tally = people, tally.reshape(empty.tally.shape)
    empty.set_aside = dict(zip(REASONS, aside.tolist(), strict=True))
    return empty
