"""The chat client against real sockets, on MicroPython and on CPython."""
