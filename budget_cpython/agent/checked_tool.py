"""The tool whose arguments are checked against all of their JSON schema."""

from budget_core.agent import tool as core


class Tool(core.Tool):
    """A tool as in the core; `jsonschema`, where installed, checks what the core does not."""

    SCHEMAS = "budget_cpython.agent.json_schema"
