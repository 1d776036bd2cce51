"""The bare handler of the benchmark "serve": `python -m benchmarks.serve_bare`, prints its URL."""

import socket
import time

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


async def answer(request: Request) -> JSONResponse:
    """Answer an operation with a hold, as the service does, without a ledger."""
    asked = await request.json()
    is_new = "amounts" in asked
    hold = {
        "path": request.path_params["path"],
        "id": asked["key" if is_new else "id"],
        "amounts": asked.get("amounts") or {"tokens": 500, "calls": 1},
        "state": "held" if is_new else "committed",
        "expires_at": int(time.time()) + 300,
        "actual": None if is_new else asked["actual"],
    }
    return JSONResponse(hold)


def main() -> None:
    """Serve until killed."""
    app = Starlette(routes=[Route("/v1/{operation}/{path:path}", answer, methods=["POST"])])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        config = uvicorn.Config(
            app, loop="uvloop", http="httptools", log_level="error", access_log=False
        )
        uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
