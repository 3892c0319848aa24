"""The server: routes, each with the role it asks for, over the store.

| route                         | role      |                                                             |
|-------------------------------|-----------|-------------------------------------------------------------|
| GET /, /static/…              | nobody    | the page: it holds no data                                  |
| GET /api/health               | nobody    | alive                                                       |
| POST /api/enter, /api/link    | nobody    | come in by a link or an invitation; what kind a link is     |
| GET /api/me, POST /api/leave  | annotator | who I am; end the session                                   |
| GET /api/project, /api/state  | annotator | classes and guidelines; progress, freshness, own speed      |
| POST /api/next …              | annotator | lease, keep, give back                                      |
| PUT /api/answers/{id}         | annotator | an answer, as often as it takes                             |
| GET /api/history              | annotator | own answers                                                 |
| GET /api/items/{key}/…        | annotator | the picture; why it was picked (own, after the answer)      |
| GET /api/team, /api/disputes  | reviewer  | the team view; what people disagree about                   |
| GET /api/items, POST …/again  | owner     | items by what became of them; one more opinion on one       |
| everything else               | owner     | people, invitations, settings, guidelines, exports          |
"""

from __future__ import annotations

import hashlib
import hmac
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection, select
from starlette.concurrency import run_in_threadpool
from starlette.staticfiles import StaticFiles

import ncalr
from ncalr.errors import BadInput, NcalrError
from ncalr.web import exchange, figures, models
from ncalr.web.folder import Folder
from ncalr.web.guard import MEDIA_POLICY, Address, Guard, TooLarge
from ncalr.web.limits import Limit, TooMany, Turns
from ncalr.web.media import SIZES, CannotShow, Media, NotThere
from ncalr.web.store import Store, again, answers, listing, people, projects, queue, schema
from ncalr.web.store.answers import Conflict, NoSuchItem
from ncalr.web.store.database import NoRoom
from ncalr.web.store.people import NotAllowed, Person, Spent

STATIC = Path(__file__).parent / "static"
TOUCH = 300.0


@dataclass(frozen=True)
class Limits:
    """How often, within how many seconds; of pictures, how many. Together they hold half of the threads at most."""

    enter: tuple[int, float] = (5, 60.0)
    answers: tuple[int, float] = (200, 10.0)
    requests: tuple[int, float] = (600, 10.0)
    pictures: tuple[int, int, int] = (4, 200, 40)  # of one person at the same time, and waiting; of all together


class Office:
    """What the routes work with."""

    def __init__(
        self,
        store: Store,
        address: Address,
        secret: bytes,
        media: Media | None = None,
        limits: Limits | None = None,
        training: bool = True,
        folder: Folder | None = None,
    ) -> None:
        self.store, self.address, self.media, self._secret, self.folder = store, address, media, secret, folder
        chosen, clock = limits or Limits(), store.clock
        self.enter = Limit("attempts to come in", *chosen.enter, clock)
        self.answers = Limit("answers", *chosen.answers, clock)
        self.requests = Limit("requests", *chosen.requests, clock)
        self.pictures = Turns("pictures", *chosen.pictures)
        self._exporting = threading.Lock()
        self.started = clock.now()
        self.training = figures.Training(training, self.started)

    @property
    def cookie(self) -> str:
        """The cookie's name; the prefix makes a browser insist on TLS and on this very host."""
        return "__Host-ncalr" if self.address.secure else f"ncalr-{self.address.port}"

    def csrf(self, session: str) -> str:
        """What only our own page knows about a session."""
        return hmac.new(self._secret, b"csrf" + session.encode(), hashlib.sha256).hexdigest()

    @contextmanager
    def export_alone(self) -> Iterator[None]:
        """One export at a time."""
        if not self._exporting.acquire(blocking=False):
            raise TooMany("exports at once", 5)
        try:
            yield
        finally:
            self._exporting.release()


Word = Annotated[str, Field(max_length=36, pattern="^[ -~]*$")]
Number = Annotated[int, Field(ge=0, lt=2**31)]
"""What a client made up: signs and numbers that every database takes."""


class Body(BaseModel):
    """Bodies have the fields we know and no others."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Entrance(Body):
    """A link, and a name where it is an invitation."""

    token: str = Field(max_length=200)
    name: str | None = Field(None, max_length=200)


class Wish(Body):
    """What a tab wants."""

    tab: Word = Field(min_length=1)
    want: int = Field(1, ge=1, le=queue.AHEAD)
    purpose: str = Field("label", pattern="^(label|review|adjudicate)$")


class Tab(Body):
    """A tab that is alive."""

    tab: Word = Field(min_length=1)


class Tokens(Body):
    """Leases."""

    leases: list[Word] = Field(max_length=50)


class Said(Body):
    """An answer as the page sends it."""

    item: Word
    kind: Word
    answer: Number | None = None
    based_on: Word | None = None
    lease: Word | None = None
    shown: float | None = None
    guideline: Number | None = None
    answered: float


class Invitation(Body):
    """Whom to invite."""

    role: str = Field(max_length=16)


class PersonChange(Body):
    """What becomes of somebody."""

    role: str | None = Field(None, max_length=16)
    active: bool | None = None


class Rules(Body):
    """Settings to change; those that are not named stay."""

    votes: int | None = None
    suggestions: bool | None = None
    control: float | None = None
    strategy: str | None = Field(None, max_length=500)
    step: int | None = None
    lease_seconds: float | None = None
    hide_names: bool | None = None


class Words(Body):
    """Guidelines."""

    text: str = Field(max_length=100_000)


class NewClass(Body):
    """One more class."""

    name: str = Field(max_length=200)


def create_app(office: Office) -> FastAPI:
    """The app, guarded."""

    @asynccontextmanager
    async def life(_app: FastAPI) -> AsyncIterator[None]:
        import anyio.to_thread

        anyio.to_thread.current_default_thread_limiter().total_tokens = 80  # those who wait for a commit wait here
        if office.media is not None:
            threading.Thread(target=office.media.warm_up, daemon=True).start()
        yield
        if office.media is not None:
            office.media.close()

    app = FastAPI(title="ncalr", openapi_url=None, docs_url=None, redoc_url=None, lifespan=life)
    app.state.office = office
    _add_errors(app)
    _add_entrance(app, office)
    _add_work(app, office)
    _add_team(app, office)
    _add_rules(app, office)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_middleware(Guard, address=office.address)
    return app


# Who asks


@dataclass(frozen=True)
class Caller:
    """Whoever asks, with what they bring: an access token, or a session and the word only our page knows."""

    office: Office
    role: str
    token: str
    session: str

    def person(self, conn: Connection) -> tuple[Person, float]:
        """The person they are, who has the role that is needed; and when they were seen last."""
        now = self.office.store.clock.now()
        if self.token:
            person, seen = people.by_access_token(conn, now, self.token), now
        else:
            person, seen = people.by_session(conn, now, self.session)
        if not person.may(self.role):
            raise Forbidden(f"this is for a {self.role}, and {person.name!r} is {person.role}")
        return person, seen

    def change(self, conn: Connection) -> Person:
        """The person, inside a change: that the session is in use is written along with it."""
        person, seen = self.person(conn)
        self.office.requests.check(person.id)
        now = self.office.store.clock.now()
        if now - seen > TOUCH:
            people.touch(conn, now, self.session)
        return person


class Forbidden(NcalrError):
    """Known, and not allowed."""


def _caller_of(request: Request, role: str) -> Caller:
    office: Office = request.app.state.office
    said = request.headers.get("authorization", "")
    if said.startswith("Bearer "):
        return Caller(office, role, said[7:], "")
    session = request.cookies.get(office.cookie)
    if session is None:
        raise NotAllowed("come in by a link first")
    if request.method not in ("GET", "HEAD"):
        given = request.headers.get("x-csrf", "")
        if not hmac.compare_digest(given.encode(), office.csrf(session).encode()):
            raise Forbidden("the request does not come from the labelling page (x-csrf is missing or wrong); reload it")
    return Caller(office, role, "", session)


def needs(role: str) -> Callable[[Request], Person]:
    """A dependency: the person, who has at least this role."""

    def check(request: Request) -> Person:
        caller = _caller_of(request, role)
        office, now = caller.office, caller.office.store.clock.now()
        person, seen = office.store.read(caller.person)
        if now - seen > TOUCH:
            with suppress(NoRoom):  # a full disk keeps nobody from reading, or from an export
                office.store.write(lambda conn: people.touch(conn, now, caller.session))
        office.requests.check(person.id)
        return person

    check.role = role  # type: ignore[attr-defined]
    return check


def claims(role: str) -> Callable[[Request], Awaitable[Caller]]:
    """A dependency of changes: who asks is looked up inside the change itself, which saves a trip to the database."""

    async def check(request: Request) -> Caller:
        return _caller_of(request, role)

    check.role = role  # type: ignore[attr-defined]
    return check


Annotator = Annotated[Person, Depends(needs("annotator"))]
Reviewer = Annotated[Person, Depends(needs("reviewer"))]
Owner = Annotated[Person, Depends(needs("owner"))]
Labeller = Annotated[Caller, Depends(claims("annotator"))]
Key = Annotated[str, InPath(max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]


# Errors: what went wrong in one sentence, and nothing about the inside


def _add_errors(app: FastAPI) -> None:
    statuses: list[tuple[type[Exception], int]] = [
        (NotAllowed, 401),
        (Forbidden, 403),
        (NoSuchItem, 404),
        (Conflict, 409),
        (TooLarge, 413),
        (CannotShow, 422),
        (NotThere, 404),
        (TooMany, 429),
        (NoRoom, 507),
        (BadInput, 400),
        (NcalrError, 400),
    ]
    for kind, status in statuses:
        app.add_exception_handler(kind, _answer(status))

    @app.exception_handler(RequestValidationError)
    def _invalid(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        return JSONResponse({"error": f"{place}: {first['msg']}"}, 400)


def _answer(status: int) -> Callable[[Request, Exception], Response]:
    def handler(_request: Request, error: Exception) -> Response:
        facts = error.facts if isinstance(error, Conflict) else {}
        headers = {"retry-after": f"{max(error.seconds, 1):.0f}"} if isinstance(error, TooMany) else None
        return JSONResponse({"error": str(error) or "the request is too large", **facts}, status, headers)

    return handler


# Coming in


def _add_entrance(app: FastAPI, office: Office) -> None:
    store = office.store

    @app.get("/")
    def page() -> Response:
        return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})

    @app.get("/api/health")
    def health() -> dict[str, str]:
        return {"version": ncalr.__version__}

    @app.post("/api/link")
    def link(body: Entrance, request: Request) -> dict[str, str]:
        with _failures_counted(office, request):
            return {"kind": store.read(lambda conn: people.token_kind(conn, store.clock.now(), body.token))}

    @app.post("/api/enter")
    def enter(body: Entrance, request: Request) -> Response:
        before = request.cookies.get(office.cookie)

        def come_in(conn: Connection) -> tuple[Person, str]:
            entered = people.enter(conn, store.clock.now(), body.token, body.name)
            if before is not None:  # its cookie is overwritten: nobody who should has it any more
                people.leave(conn, store.clock.now(), before)
            if body.name is not None:  # somebody new, who may be asked what others were unsure about
                answers.reconsider(conn)
            return entered

        with _failures_counted(office, request):
            store.read(lambda conn: people.token_kind(conn, store.clock.now(), body.token))  # guesses stop no writer
            person, session = store.write(come_in)
        reply = JSONResponse({"name": person.name, "role": person.role})
        reply.set_cookie(
            office.cookie,
            session,
            httponly=True,
            samesite="strict",
            secure=office.address.secure,
            path="/",
            max_age=int(people.LONGEST_SECONDS),
        )
        return reply

    @app.get("/api/me")
    def me(person: Annotator, request: Request) -> dict[str, Any]:
        session = request.cookies.get(office.cookie, "")
        return {"key": person.key, "name": person.name, "role": person.role, "csrf": office.csrf(session)}

    @app.post("/api/leave")
    def leave(_person: Annotator, request: Request) -> Response:
        session = request.cookies.get(office.cookie, "")
        store.write(lambda conn: people.leave(conn, store.clock.now(), session))
        reply = JSONResponse({"left": True})
        reply.delete_cookie(office.cookie, secure=office.address.secure)  # __Host- needs it here too
        return reply


@contextmanager
def _failures_counted(office: Office, request: Request) -> Iterator[None]:
    """Who guesses too often is told to wait; a link that is real lets in whatever somebody else at the address does.

    One that was real once is no guess: whoever opens a used invitation again is told so, as often as they do.
    """
    try:
        yield
    except Spent:
        raise
    except NotAllowed:
        office.enter.check(_caller(request, office.address))
        raise


def _caller(request: Request, address: Address) -> str:
    """Who asks, by address; behind our proxy, which only --public-url says there is, the address it saw."""
    seen = request.headers.get("x-forwarded-for", "").rpartition(",")[2].strip() if address.public_url else ""
    return seen or (request.client.host if request.client else "unknown")


# Labelling


def _add_work(app: FastAPI, office: Office) -> None:
    store = office.store

    @app.get("/api/project")
    def project(_person: Annotator) -> dict[str, Any]:
        def look(conn: Any) -> dict[str, Any]:
            found = projects.load(conn)
            return {
                "name": found.name,
                "kind": found.kind,
                "votes": found.votes,
                "classes": projects.classes(conn),
                "guideline": {"version": found.guideline, "text": projects.guideline(conn)},
                "suggestions": found.settings.suggestions,
                "lease_seconds": found.settings.lease_seconds,
            }

        return store.read(look)

    @app.get("/api/state")
    def state(person: Annotator) -> dict[str, Any]:
        def look(conn: Any) -> dict[str, Any]:
            now = store.clock.now()
            return {
                "progress": figures.progress(conn),
                "waiting": again.waiting(conn, now, person),
                "model": figures.freshness(conn, now, office.training),
                "own": figures.own(conn, person),
                "guideline": projects.load(conn).guideline,
            }

        return store.read(look)

    # What people do all day. No thread waits for these: they stand in the writer's line, and the loop goes on.

    @app.post("/api/next")
    async def next_items(caller: Labeller, wish: Wish) -> Response:
        now = store.clock.now()

        def change(conn: Connection) -> dict[str, Any]:
            person = caller.change(conn)
            if wish.purpose == "adjudicate" and not person.may("reviewer"):
                raise Forbidden("decisions are for reviewers")
            leases = queue.hand_out(conn, now, person, wish.tab, wish.want, wish.purpose)
            if len(leases) < wish.want and queue.take_over(conn, now, person, wish.tab, office.started):
                leases = queue.hand_out(conn, now, person, wish.tab, wish.want, wish.purpose)
            reply: dict[str, Any] = {"items": _named(conn, [vars(lease) for lease in leases]), "now": now}
            if len(leases) < wish.want:
                found = queue.emptiness(conn, now, person, wish.tab)
                reply["rest"] = {**asdict(found), "done": found.done}
            return reply

        # a lease that a power cut takes back has ended early, which it may at any time
        return JSONResponse(await store.awrite(change, durable=False))

    @app.post("/api/heartbeat")
    async def heartbeat(caller: Labeller, body: Tab) -> Response:
        now = store.clock.now()
        return JSONResponse(
            {"held": await store.awrite(lambda conn: queue.renew(conn, now, caller.change(conn), body.tab))}
        )

    @app.post("/api/release")
    async def release(caller: Labeller, body: Tokens) -> Response:
        return JSONResponse(
            {"released": await store.awrite(lambda conn: queue.release(conn, caller.change(conn), body.leases))}
        )

    @app.put("/api/answers/{id_}")
    async def answer(caller: Labeller, id_: Key, said: Said) -> Response:
        whole = answers.Answer(id=id_, **said.model_dump())

        def change(conn: Connection) -> answers.Receipt:
            person = caller.change(conn)
            office.answers.check(person.id)
            return answers.submit(conn, store.clock.now(), person, whole)

        return JSONResponse(vars(await store.awrite(change)))

    @app.get("/api/history")
    def history(
        person: Annotator, limit: Annotated[int, Query(ge=1, le=200)] = 50, before: Number | None = None
    ) -> list[dict[str, Any]]:
        def look(conn: Any) -> list[dict[str, Any]]:
            return _named(conn, answers.history(conn, person, limit, before))

        return store.read(look)

    def decoded(key: str, size: int) -> tuple[str, bytes]:
        name = store.read(
            lambda conn: conn.execute(select(schema.item.c.name).where(schema.item.c.key == key)).scalar()
        )
        if name is None or office.media is None:
            raise NoSuchItem("there is no such picture")
        return office.media.picture(key, name, size)

    @app.get("/api/items/{key}/picture")
    async def picture(person: Annotator, key: Key, size: int = SIZES[-1]) -> Response:
        if size not in SIZES:
            raise BadInput(f"pictures come in the sizes {', '.join(map(str, SIZES))}")
        async with office.pictures.turn(person.id):  # pictures that take long hold up whoever asks, not the others
            kind, content = await run_in_threadpool(decoded, key, size)
        headers = {
            "content-security-policy": MEDIA_POLICY,
            "cache-control": "private, max-age=86400, immutable",
            "content-disposition": "inline; filename=picture",
        }
        return Response(content, media_type=kind, headers=headers)

    @app.get("/api/leases/{token}/why")
    def why(person: Annotator, token: Key) -> dict[str, Any]:
        return store.read(lambda conn: queue.why(conn, token, person))


def _named(conn: Connection, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a tab is told of items: no names where they are hidden, and in a blind second look none that tells."""
    hidden = projects.load(conn).settings.hide_names
    blind = projects.classes(conn) if any(item["purpose"] == "review" for item in items) else []

    def name(item: dict[str, Any]) -> str:
        return "" if hidden or (item["purpose"] == "review" and again.tells(item["name"], blind)) else item["name"]

    return [{**item, "name": name(item)} for item in items]


# The team


def _add_team(app: FastAPI, office: Office) -> None:
    store = office.store

    @app.get("/api/team")
    def team(_person: Reviewer) -> dict[str, Any]:
        return store.read(lambda conn: figures.team(conn, store.clock.now(), office.training))

    @app.get("/api/items")
    def listed(
        person: Owner,
        status: Annotated[str, Query(max_length=16)] = "labelled",
        answer: Number | None = None,
        after: Number = 0,
        limit: Annotated[int, Query(ge=1, le=200)] = 60,
    ) -> list[dict[str, Any]]:
        def look(conn: Any) -> list[dict[str, Any]]:
            found = _named(conn, listing.page(conn, person, status, answer, after, limit))
            own = [item["own"] for item in found if item["own"]]
            told = dict(zip((entry["id"] for entry in own), _named(conn, own), strict=True))
            return [{**item, "own": told[item["own"]["id"]] if item["own"] else None} for item in found]

        return store.read(look)

    @app.post("/api/items/{key}/again")
    def ask_again(_person: Owner, key: Key) -> dict[str, int]:
        return {"wanted": store.write(lambda conn: listing.ask_again(conn, key))}

    @app.get("/api/disputes/{lease}")
    def dispute(person: Reviewer, lease: Key) -> list[dict[str, Any]]:
        """What was said about an item that is to be decided; for whoever holds it."""
        return store.read(lambda conn: _opinions(conn, person, lease))

    @app.post("/api/leases/clear")
    def clear(_person: Owner) -> dict[str, int]:
        return {"released": store.write(queue.clear)}

    @app.post("/api/invitations")
    def invite(_person: Owner, body: Invitation) -> dict[str, Any]:
        now = store.clock.now()
        token = store.write(lambda conn: people.issue(conn, now, "invitation", role=body.role))
        return {"url": f"{office.address.url}/#enter={token}", "expires": now + people.LINK_SECONDS}

    @app.post("/api/people/{key}/link")
    def new_link(_person: Owner, key: Key) -> dict[str, Any]:
        now = store.clock.now()
        token = store.write(lambda conn: people.link(conn, now, people.by_key(conn, key)))
        return {"url": f"{office.address.url}/#enter={token}", "expires": now + people.LINK_SECONDS}

    @app.patch("/api/people/{key}")
    def change_person(_person: Owner, key: Key, body: PersonChange) -> dict[str, bool]:
        now = store.clock.now()

        def change(conn: Connection) -> None:
            people.change(conn, now, people.by_key(conn, key), body.role, body.active)
            if body.active is not None:
                answers.reconsider(conn)

        store.write(change)
        return {"changed": True}


def _opinions(conn: Any, person: Person, lease: str) -> list[dict[str, Any]]:
    """The answers, and how many people gave each; who gave which is not told before it is decided.

    Somebody who was asked twice counts once, with the later answer.
    """
    table, vote = schema.lease, schema.vote
    held = conn.execute(
        select(table.c.item_id).where(
            table.c.token == lease, table.c.person_id == person.id, table.c.purpose == "adjudicate"
        )
    ).scalar()
    if held is None:
        raise NoSuchItem("there is no such item of yours to decide")
    rows = conn.execute(
        select(vote.c.person_id, vote.c.kind, vote.c.answer)
        .where(vote.c.item_id == held, vote.c.kind != "skip", vote.c.purpose != "adjudicate")
        .order_by(vote.c.seq)
    )
    latest = {row.person_id: (row.kind, row.answer) for row in rows}
    said = sorted(Counter(latest.values()).items(), key=lambda pair: (pair[0][0], pair[0][1] or 0))
    return [{"kind": kind, "answer": answer, "people": count} for (kind, answer), count in said]


# Rules and exports


def _add_rules(app: FastAPI, office: Office) -> None:
    store = office.store

    @app.get("/api/settings")
    def settings(_person: Owner) -> dict[str, Any]:
        found = store.read(projects.load)
        return {**asdict(found.settings), "votes": found.votes}

    @app.patch("/api/settings")
    def change_settings(_person: Owner, body: Rules) -> dict[str, Any]:
        changes = {name: value for name, value in body.model_dump().items() if value is not None}

        def change(conn: Any) -> dict[str, Any]:
            if "votes" in changes:
                answers.change_votes(conn, changes["votes"])
            rules = {name: value for name, value in changes.items() if name != "votes"}
            return asdict(projects.change_settings(conn, **rules))

        if "strategy" in changes:
            from ncalr.acquire.rehearsal import rehearsed

            rehearsed(changes["strategy"])
        return store.write(change)

    @app.put("/api/guideline")
    def guideline(_person: Owner, body: Words) -> dict[str, int]:
        return {"version": store.write(lambda conn: projects.write_guideline(conn, store.clock.now(), body.text))}

    @app.post("/api/classes")
    def new_class(_person: Owner, body: NewClass) -> dict[str, int]:
        return {"number": store.write(lambda conn: projects.add_class(conn, body.name))}

    @app.get("/api/export")
    def export(_person: Owner, form: Annotated[str, Query(max_length=20)] = "csv") -> Response:
        if form not in exchange.WRITERS:
            raise BadInput(f"exports come as {', '.join(exchange.WRITERS)}")
        with office.export_alone():
            file = _spooled(lambda file: store.read(lambda conn: exchange.write(exchange.records(conn), form, file)))
        headers = {"content-disposition": f"attachment; filename=labels.{exchange.ENDINGS[form]}"}
        return StreamingResponse(_pieces(file), media_type=exchange.TYPES[form], headers=headers)

    @app.get("/api/model")
    def model(_person: Owner) -> Response:
        folder = office.folder
        if folder is None:
            raise BadInput("this server has no folder that keeps a model")
        with office.export_alone():
            file = _spooled(lambda file: models.pack(folder, file))
        headers = {"content-disposition": "attachment; filename=model.zip"}
        return StreamingResponse(_pieces(file), media_type="application/zip", headers=headers)


def _spooled(write: Callable[[Any], None]) -> Any:
    """A file with what was written to it, to be read from its beginning; closed by whoever sends it."""
    file = tempfile.SpooledTemporaryFile(max_size=2**24)  # noqa: SIM115 (closed when it was sent)
    try:
        write(file)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


def _pieces(file: Any) -> Iterator[bytes]:
    with file:
        while piece := file.read(2**16):
            yield piece


def route_table(app: FastAPI) -> dict[tuple[str, str], str]:
    """Every route with the role it asks for: "nobody" where it asks for none."""
    found = {}
    for route in app.routes:
        role = "nobody"
        for dependency in getattr(getattr(route, "dependant", None), "dependencies", []):
            role = getattr(dependency.call, "role", role)
        for method in getattr(route, "methods", None) or {"GET"}:
            if method != "HEAD":
                found[method, getattr(route, "path", "")] = role
    return found


__all__ = ["Limits", "Office", "create_app", "route_table"]
