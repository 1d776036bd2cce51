"""Build what a board runs, copy it there with mpremote, and look after its state.

Everything that speaks to a board is loaded when a command needs it: this package costs nothing.
"""

PORT_VARIABLE = "MICROBUDGET_PORT"
