"""The serial line as a chip has it. Also what programs import as `micropython`.

While a program may be interrupted the terminal turns Ctrl-C into an interrupt, a typed carriage
return into a line feed, and a line feed that is written into both.
"""
# mypy: ignore-errors

import sys

import _flash
from micropython import *  # noqa: F403 - it takes that module's place
from micropython import kbd_intr as _kbd_intr

_SET = _flash.LIBC.func("i", "tcsetattr", "iip")
PLAIN = bytearray(60)
RUNNING = bytearray(60)
_key = bytearray(1)
_input = sys.stdin.buffer
_output = sys.stdout.buffer


def kbd_intr(character):
    """Let Ctrl-C interrupt the program (3), or let every byte pass as it is (-1)."""
    if character == 3:
        _kbd_intr(3)
        _SET(0, 0, RUNNING)
    else:
        _SET(0, 0, PLAIN)
        _kbd_intr(-1)


def prompt():
    """Let every byte that is typed pass; end written lines as for a program."""
    RUNNING[1] &= ~0x01
    RUNNING[12] &= ~0x01
    _SET(0, 0, RUNNING)
    RUNNING[1] |= 0x01
    RUNNING[12] |= 0x01
    _kbd_intr(-1)


def key():
    """Return the next byte that was typed."""
    if not _input.readinto(_key):
        _flash.EXIT(1)
    return _key[0]


def write(text):
    """Write text or bytes."""
    _output.write(text)
