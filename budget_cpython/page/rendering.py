"""Fill the page's templates, and say what a browser may load for them: nothing from elsewhere."""

from typing import Any

from starlette.responses import HTMLResponse, Response

from budget_cpython.page.templating import STATIC, content, filled

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with none at all, a browser hides the origin of forms too
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def render(template: str, status: int = 200, **values: Any) -> Response:
    """Return a page of HTML, which no cache keeps."""
    text = filled(template, **values)
    return HTMLResponse(text, status, {**HEADERS, "Cache-Control": "no-store"})


def static_file(name: str) -> Response | None:
    """Return a style, script or picture of the page, `None` for another name."""
    if name not in STATIC:
        return None
    headers = {**HEADERS, "Cache-Control": "private, max-age=86400"}
    return Response(content(name), 200, headers, STATIC[name])
