"""Serve the scripted model from the command line: `python -m scripted_model`."""

import argparse
import signal
import sys
import threading

from scripted_model.faults import FAULTS
from scripted_model.scripts import SCRIPTS
from scripted_model.server import HOST, ScriptedEndpoint


def main(arguments: list[str] | None = None) -> int:
    """Serve until Ctrl-C or SIGTERM; return the exit code."""
    options = _parser().parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        endpoint = ScriptedEndpoint(options.api_key, options.port)
    except (OSError, OverflowError) as error:
        print(f"cannot serve on {HOST}:{options.port}: {error}", file=sys.stderr)
        return 1
    with endpoint:
        print(endpoint.base_url, flush=True)
        # Windows delivers no Ctrl-C during an endless wait.
        while not stop.wait(1.0):
            pass
    return 0


def _parser() -> argparse.ArgumentParser:
    rows = [f"  {name:14} {script.says}" for name, script in SCRIPTS.items()]
    rows += [f"  {name:14} {fault.says}" for name, fault in FAULTS.items()]
    parser = argparse.ArgumentParser(
        prog="python -m scripted_model",
        description=f"Serve a scripted model on {HOST}: chat completions, responses, embeddings\n"
        "below /v1, Anthropic's messages at /v1/messages, Google's generateContent below /v1beta.\n"
        "The first line printed is the base URL; Ctrl-C or SIGTERM stops it.",
        epilog="Any model name is answered, but some have manners of their own:\n"
        + "\n".join(rows),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="port to serve on (default: a free one)"
    )
    parser.add_argument(
        "--api-key", metavar="K", help="refuse requests without this API key (default: none)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
