"""An operative over a socket, on MicroPython and on CPython."""
