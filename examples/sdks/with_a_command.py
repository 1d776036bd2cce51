"""A budget round a command: an agent that knows nothing of budgets is refused in the end.

    pip install 'microbudget[proxy]'
    PYTHONPATH=. python examples/sdks/with_a_command.py

Instead of the agent below it may be any program: node agent.js, claude, a shell script. A scripted
model on this machine stands in for OpenAI.
"""

import os
import subprocess
import sys

from scripted_model import ScriptedEndpoint

AGENT = """
import json, os, sys, urllib.error, urllib.request
for question in ("How do tomatoes grow?", "And basil?", "And beans?", "And peas?"):
    body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": question}]}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request) as answer:
            print("assistant:", json.load(answer)["choices"][0]["message"]["content"], flush=True)
    except urllib.error.HTTPError as error:
        sys.exit(f"the agent fails: {error}")
"""


def main() -> None:
    """Run the agent within three calls and a minute, and print the exit code."""
    run = [sys.executable, "-m", "budget_cpython.cli", "run", "--budget", "3 calls + $1 + 1 min"]
    with ScriptedEndpoint() as endpoint:
        environment = {**os.environ, "OPENAI_BASE_URL": endpoint.base_url}
        command = [*run, "--", sys.executable, "-c", AGENT]
        done = subprocess.run(command, env=environment, check=False)  # noqa: S603
        print(f"exit code {done.returncode}; {len(endpoint.requests)} calls reached the model")


if __name__ == "__main__":
    main()
