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
_plain = bytearray(60)
_running = bytearray(60)
_key = bytearray(1)
_input = sys.stdin.buffer
_output = sys.stdout.buffer


def start():
    """Take the terminal's present state as the plain one."""
    _flash.LIBC.func("i", "ioctl", "iLi")(0, 0x540E, 0)  # TIOCSCTTY: Ctrl-C comes to this process
    _flash.LIBC.func("i", "tcgetattr", "ip")(0, _plain)
    _running[:] = _plain
    _running[1] |= 0x01  # ICRNL
    _running[4] |= 0x05  # OPOST, ONLCR
    _running[12] |= 0x81  # ISIG, NOFLSH


def kbd_intr(character):
    """Let Ctrl-C interrupt the program (3), or let every byte pass as it is (-1)."""
    if character == 3:
        _kbd_intr(3)
        _SET(0, 0, _running)
    else:
        _SET(0, 0, _plain)
        _kbd_intr(-1)


def prompt():
    """Let every byte that is typed pass; end written lines as for a program."""
    _running[1] &= ~0x01
    _running[12] &= ~0x01
    _SET(0, 0, _running)
    _running[1] |= 0x01
    _running[12] |= 0x01
    _kbd_intr(-1)


def key():
    """Return the next byte that was typed."""
    if not _input.readinto(_key):
        _flash.EXIT(1)
    return _key[0]


def write(text):
    """Write text or bytes."""
    _output.write(text)
