"""Build a board's files, copy them there with mpremote, and look after its budget state.

The modules that need mpremote are imported when a command runs.
"""

PORT_VARIABLE = "MICROBUDGET_PORT"
