"""Forms of the page, and the session's cookie."""

import hmac
from urllib.parse import parse_qs, quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from budget_cpython.page.doors import PageReader, cookie_name

_MOST_FIELDS = 20


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; `HTTPException` for what is none, or another origin's."""
    _check_origin(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415, "Send a form.")
    body = await request.body()
    try:
        pairs = parse_qs(body.decode(), True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise HTTPException(400, "The form is malformed.") from error
    return {name: values[-1] for name, values in pairs.items()}


def check_token(form: dict[str, str], reader: PageReader) -> None:
    """Raise `HTTPException` unless the page made a form for this reader."""
    if not hmac.compare_digest(form.get("token", "").encode(), reader.form_token.encode()):
        raise HTTPException(403, "This form is out of date: load the page again.")


def place_of(request: Request, below: str = "") -> str:
    """Return the path of a URL of the page."""
    return f"{quote(request.scope.get('root_path', ''))}/{quote(below)}"


def set_cookie(request: Request, answer: Response, session: str, age_s: int) -> None:
    """Have a browser keep a session for so long, for the page alone and out of scripts' reach."""
    answer.set_cookie(
        cookie_name(request),
        session,
        max_age=age_s,
        path=place_of(request),
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


def _check_origin(request: Request) -> None:
    """Raise `HTTPException` for a form that a page of another origin sends.

    Browsers say so by the first header on https and on this machine, else by the second.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        is_ours = site == "same-origin"
    else:
        host = request.headers.get("host", "")
        is_ours = origin is None or origin.partition("://")[2] == host
    if not is_ours:
        raise HTTPException(403, "Only this page's own forms may change something.")
