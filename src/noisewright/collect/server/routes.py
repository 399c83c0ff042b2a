"""What each address does: the public part for devices, the analyst's part behind a key."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from noisewright.collect.campaign import Campaign, Outcome, Submission, Terms
from noisewright.collect.server.door import (
    Ready,
    Refusal,
    admitted_submission,
    body,
    json,
    most_bytes,
)
from noisewright.collect.service import Service, check_round
from noisewright.collect.store import Level
from noisewright.files import csv_bytes
from noisewright.local.reports.aggregate import Aggregate

if TYPE_CHECKING:
    import pyarrow as pa

_PARQUET = "application/vnd.apache.parquet"
_MOST_PLAN = 2**26  # bytes of a campaign to publish
_ADMIN_BODY = 2**17  # bytes of any other request with a key

COOKIE = "noisewright-session"
"""What a browser keeps in the place of a key."""


_ANSWERS = {
    Outcome.ACCEPTED: Ready(201, b'{"status":"accepted"}'),
    Outcome.REPEATED: Ready(200, b'{"status":"repeated"}'),
}


class Publication(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A campaign to be published: its terms, and the content of a plan file in base64."""

    terms: dict[str, Any]
    plan: bytes


class Entrance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key, for which a browser gets a session."""

    key: Annotated[str, msgspec.Meta(max_length=200)]


class Invitations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many tokens are wanted."""

    count: Annotated[int, msgspec.Meta(ge=1, le=100_000)]


_Struct = TypeVar("_Struct", bound=msgspec.Struct)


async def _sent(
    request: Request, kind: type[_Struct], expected: str, most: int = _ADMIN_BODY
) -> _Struct:
    """What a request with a key holds, or a refusal that says what is expected."""
    content = await body(request.receive, most)
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Refusal(422, "malformed", expected) from None


class Routes:
    """The endpoints over one service."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def _campaign(self, request: Request) -> Campaign:
        return await self._named(request.path_params["name"])

    async def _named(self, name: str) -> Campaign:
        campaign = await self.service.campaign(name)
        if campaign is None:
            raise Refusal(404, "unknown", "there is no such campaign")
        return campaign

    async def _require(self, request: Request, needed: Level) -> None:
        """Refuse whoever has no key, or one that does not allow this.

        A cookie opens what is looked at, never what changes anything: no other page can forge that.
        """
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            looks = request.method in ("GET", "HEAD")
            secret = request.cookies.get(COOKIE, "") if looks else ""

        level = await self.service.level(secret.strip())
        if level is None:
            raise Refusal(401, "unauthorised", "a key is needed")
        if needed == "admin" and level != "admin":
            raise Refusal(403, "forbidden", "this key may look at estimates only")

    # --- for devices --------------------------------------------------------------------------

    async def public(self, request: Request) -> Response:
        """Everything about a campaign that a device needs, the same for everybody."""
        campaign = await self._campaign(request)
        etag = f'"{campaign.digest}"'
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers={"etag": etag})
        document = {**campaign.public, "closed": campaign.closed}

        return json(document, etag=etag, cache_control="no-cache")

    async def submit(self, request: Request) -> Response:
        """Take one report."""
        return await self.take(
            request.path_params["name"], request.scope, request.receive
        )

    async def take(self, name: str, scope: Scope, receive: Receive) -> Response:
        """Take one report; answered once it is on the disk."""
        service = self.service
        sender = scope.get("client")
        wait = service.limit.wait(sender[0] if sender else None)
        if wait:
            raise Refusal(429, "too_fast", "too many reports from one place", wait)

        campaign = await self._named(name)
        content = await body(receive, most_bytes(campaign))
        try:
            submission = admitted_submission(campaign, content)
        except Refusal as refusal:
            service.counters["reports", refusal.name] += 1
            if refusal.name in ("malformed", "foreign"):
                service.writer.note(Submission(campaign, aside=refusal.name))
            raise

        outcome = await service.writer.submit(submission)
        service.counters["reports", outcome.value] += 1
        if outcome in _ANSWERS:
            return _ANSWERS[outcome]
        if outcome is Outcome.UNINVITED:
            raise Refusal(403, "uninvited", "the invitation is unknown or was used")

        raise Refusal(
            422, outcome.value, "no client of this plan could have sent this report"
        )

    # --- for analysts -------------------------------------------------------------------------

    async def campaigns(self, request: Request) -> Response:
        """Names of all campaigns, or the publication of another."""
        if request.method == "POST":
            return await self._publish(request)
        await self._require(request, "view")
        listed = await self.service.read(lambda store: store.campaigns())
        return json([{"name": name, "closed": closed} for _, name, closed in listed])

    async def _publish(self, request: Request) -> Response:
        await self._require(request, "admin")
        expected = "terms and a plan in base64 are expected"
        sent = await _sent(request, Publication, expected, _MOST_PLAN)
        campaign = await self.service.read(
            lambda store: store.publish(
                Campaign.published(Terms.read(sent.terms), sent.plan)
            )
        )
        self.service.forget()

        return json({"name": campaign.name, "digest": campaign.digest}, 201)

    async def session(self, request: Request) -> Response:
        """Open a session for a key that a form posted, tell what it allows, or end it."""
        if request.method == "GET":
            level = await self.service.level(request.cookies.get(COOKIE, ""))
            return json({"level": level}, cache_control="no-store")

        if request.method == "DELETE":
            await self.service.end_session(request.cookies.get(COOKIE, ""))
            return _session_cookie(request, Response(status_code=204), "")

        sent = await _sent(request, Entrance, "a key is expected")
        level = await self.service.level(sent.key.strip())
        if level is None:
            raise Refusal(401, "unauthorised", "this key is not known here")

        secret = await self.service.open_session(level)
        return _session_cookie(request, json({"level": level}, 201), secret)

    async def figures(self, request: Request) -> Response:
        """Estimates with intervals, and what there is to say about them."""
        await self._require(request, "view")
        campaign, round_name = await self._round(request)
        document = await self.service.figures(campaign, round_name)
        return json(document, cache_control="no-store")

    async def _round(self, request: Request) -> tuple[Campaign, str]:
        campaign = await self._campaign(request)
        rounds = await self.service.read(lambda store: store.rounds(campaign))
        asked = request.query_params.get("round")
        return campaign, check_round(campaign, rounds, asked)

    async def _added_up(self, request: Request) -> tuple[Campaign, Aggregate]:
        await self._require(request, "view")
        campaign, name = await self._round(request)
        reports = await self.service.read(lambda store: store.aggregate(campaign, name))
        return campaign, reports

    async def answers(self, request: Request) -> Response:
        """The answers as a file."""
        campaign, aggregate = await self._added_up(request)
        if not aggregate.people:
            raise Refusal(409, "no_reports", "no report has come yet")

        table = campaign.plan.estimate(aggregate).to_arrow()
        return _table_file(table, request.path_params["kind"], campaign.name)

    async def reports(self, request: Request) -> Response:
        """The reports that were kept, shuffled, as Parquet."""
        await self._require(request, "admin")
        campaign, round_name = await self._round(request)
        content = await self.service.read(
            lambda store: _reports_parquet(
                list(store.reports(campaign, round_name)), round_name
            )
        )

        return _file(content, _PARQUET, f"{campaign.name}-reports.parquet")

    async def statistics(self, request: Request) -> Response:
        """What the reports add up to: a file for `noisewright estimate`."""
        campaign, aggregate = await self._added_up(request)
        content = aggregate.to_bytes()
        return _file(content, "application/octet-stream", f"{campaign.name}.agg")

    async def invite(self, request: Request) -> Response:
        """New one-time tokens, told once."""
        await self._require(request, "admin")
        campaign = await self._campaign(request)
        expected = "a count from 1 to 100000 is expected"
        count = (await _sent(request, Invitations, expected)).count
        tokens = await self.service.read(lambda s: s.invite(campaign.number, count))

        return json({"tokens": tokens}, 201, cache_control="no-store")

    async def close(self, request: Request) -> Response:
        """Take no more reports."""
        await self._require(request, "admin")
        campaign = await self._campaign(request)
        await self.service.read(lambda store: store.close_campaign(campaign.number))
        self.service.forget()
        return json({"name": campaign.name, "closed": True})

    # --- for machines -------------------------------------------------------------------------

    async def health(self, request: Request) -> Response:
        """Whether the worker lives and its last transaction reached the disk."""
        healthy = self.service.writer.healthy
        return json(
            {"status": "ok" if healthy else "degraded"}, 200 if healthy else 503
        )

    async def metrics(self, request: Request) -> Response:
        """Counts of this worker's requests and reports, in Prometheus' text format."""
        if not self.service.settings.open_metrics:
            await self._require(request, "view")

        service = self.service
        now = {"waiting": service.writer.waiting, "connections": len(service.places)}
        lines = []
        for name, level in now.items():
            lines += [f"# TYPE noisewright_{name} gauge", f"noisewright_{name} {level}"]

        cut = {("connections", why): n for why, n in service.places.cut.items()}
        counted = sorted({**service.counters, **cut}.items())
        kinds = {"reports": "outcome", "requests": "status", "connections": "cut"}
        for kind, label in kinds.items():
            total = f"noisewright_{kind}_total"
            lines.append(f"# TYPE {total} counter")
            lines += [
                f'{total}{{{label}="{value}"}} {count}'
                for (group, value), count in counted
                if group == kind
            ]

        return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


def _session_cookie(request: Request, response: Response, secret: str) -> Response:
    """The response, with a cookie that no script reads and no other site sends."""
    response.set_cookie(
        COOKIE,
        secret,
        max_age=None if secret else 0,
        path="/api",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    response.headers["cache-control"] = "no-store"

    return response


def _reports_parquet(reports: list[bytes], round_name: str) -> bytes:
    """Reports as the file that `noisewright estimate` and counting engines read."""
    import pyarrow as pa

    from noisewright.local.reports.exchange import COLUMN, ROUND

    named = {ROUND: round_name} if round_name else None
    schema = pa.schema([(COLUMN, pa.binary())], metadata=named)
    return _parquet(pa.table([pa.array(reports, pa.binary())], schema=schema))


def _parquet(table: pa.Table) -> bytes:
    import pyarrow.parquet as parquet

    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()


def _table_file(table: pa.Table, kind: str, name: str) -> Response:
    if kind == "parquet":
        return _file(_parquet(table), _PARQUET, f"{name}.parquet")
    if kind != "csv":
        raise Refusal(404, "unknown", "answers are csv or parquet")

    return _file(csv_bytes(table), "text/csv; charset=utf-8", f"{name}.csv")


def _file(content: bytes, kind: str, name: str) -> Response:
    headers = {
        "content-disposition": f'attachment; filename="{name}"',
        "cache-control": "no-store",
    }
    return Response(content, headers=headers, media_type=kind)
