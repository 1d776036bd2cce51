"""The friendly and the raw REPL of a board."""
# mypy: ignore-errors

import gc
import io
import os
import sys

import _flash
import _terminal
from _terminal import key, write
from micropython import const

_CTRL_A = const(1)
_CTRL_B = const(2)
_CTRL_C = const(3)
_CTRL_D = const(4)
_SOFT_RESET = const(10)
_SOFT_RESET_RAW = const(11)
_WINDOW = const(1024)
RAW = "raw REPL; CTRL-B to exit\n"


def entered(prompt=""):
    """Return a line typed by the user: `input`."""
    print(prompt, end="")
    _terminal.prompt()
    line = edit("")
    _terminal.kbd_intr(3)
    if line == _CTRL_C:
        raise KeyboardInterrupt
    if line == _CTRL_D:
        raise EOFError
    return line


def edit(prompt, stops=(_CTRL_C, _CTRL_D)):
    """Return a line typed after a prompt, or the code of the control key that ended it."""
    write(prompt)
    line = bytearray()
    while True:
        code = key()
        if code in b"\r\n":
            write("\n")
            try:
                return line.decode()
            except UnicodeError:
                return ""
        if code == _CTRL_C or (code in stops and not line):
            write("\n")
            return code
        if code in b"\x08\x7f" and line:
            line = line[:-1]
            write("\x08 \x08")
        elif code == 27:
            key(), key()  # an arrow
        elif code >= 32 or code == 9:
            line.append(code)
            write(bytes((code,)))


def greet():
    print(sys.version.split("; ")[1] + "; the unix board of microbudget")
    print('Type "help()" for more information.')


def is_unfinished(text):
    """Return whether a statement continues in the next line."""
    if text.endswith("\n"):
        return False
    open_brackets = 0
    for mark in "([{":
        open_brackets += text.count(mark)
    for mark in ")]}":
        open_brackets -= text.count(mark)
    return "\n" in text or open_brackets > 0 or text.rstrip()[-1:] in ":\\" or text[0] == "@"


class Repl:
    """Runs what is typed, in a namespace, until a soft reset is asked for."""

    def __init__(self, namespace, raw, booting):
        self.namespace = namespace
        self.booting = booting
        self.raw = raw
        self.text = None

    def run(self):
        """Run the programs of the flash, then what is typed, until a soft reset is asked for."""
        gc.collect()
        continues = True
        try:
            _terminal.kbd_intr(3)
            _flash.WRITE(self.booting, "b", 1)
            continues = self.run_files()
        except KeyboardInterrupt:  # between two programs
            pass
        _terminal.prompt()
        while continues and (self.serve_raw if self.raw else self.serve_friendly)():
            self.raw = not self.raw
        write("MPY: soft reboot\n")
        _flash.EXIT(_SOFT_RESET_RAW if self.raw else _SOFT_RESET)

    def run_files(self):
        """Run `boot.py`, and `main.py` if it is to be; return whether neither exited."""
        for path in ("boot.py", "main.py"):
            if path == "main.py" and self.raw:
                return True
            try:
                os.stat(path)
            except OSError:
                continue
            error = caught(execfile, path, self.namespace)  # noqa: F821 - MicroPython's own
            if isinstance(error, SystemExit):
                return False
            if error:
                report(error)
        return True

    def serve_friendly(self):
        greet()
        while True:
            text = edit(">>> ", (_CTRL_A, _CTRL_B, _CTRL_C, _CTRL_D))
            if text == _CTRL_A:
                return True
            if text == _CTRL_B:
                greet()
            if text == _CTRL_D:
                return False
            if isinstance(text, int) or not text.strip():
                continue
            while isinstance(text, str) and is_unfinished(text):
                more = edit("... ")
                text = more if isinstance(more, int) else text + "\n" + more
            self.text = text
            text = None
            if isinstance(self.text, str) and not self.execute("single"):
                return False

    def serve_raw(self):
        write(RAW)
        while True:
            write(">")
            self.text = self.read_raw()
            if self.text is None:
                return True
            if not self.text or not self.execute("exec", "\x04"):
                return False

    def read_raw(self):
        """Return a program's bytes, none for a soft reset, `None` to leave the raw REPL."""
        code = bytearray()
        while True:
            byte = key()
            if byte == _CTRL_A:
                if code == b"\x05A":
                    return paste()
                write(RAW + ">")
                code = bytearray()
            elif byte == _CTRL_B:
                write("\n")
                return None
            elif byte == _CTRL_C:
                code = bytearray()
            elif byte == _CTRL_D:
                write("OK" if code else "OK\n")
                return bytes(code)
            else:
                code.append(byte)

    def execute(self, kind, end=""):
        """Run the text that was read; return whether it did not ask for a soft reset."""
        error = caught(self.compile, kind)
        _terminal.prompt()
        write(end)
        continues = not isinstance(error, SystemExit)
        if error and continues:
            report(error)
        write(end)
        return continues

    def compile(self, kind):
        _terminal.kbd_intr(3)
        program = compile(self.text, "<stdin>", kind)
        self.text = None  # it leaves its room to the program
        exec(program, self.namespace)  # noqa: S102 - what a REPL is for


def caught(function, *arguments):
    """Call a function; return what it raises."""
    try:
        function(*arguments)
    except BaseException as error:  # noqa: BLE001 - a REPL outlives its programs
        return error
    return None


def report(error):
    """Show an exception as a board does, without the lines of this firmware."""
    gc.collect()
    try:
        shown = io.StringIO()
        sys.print_exception(error, shown)
        for line in shown.getvalue().split("\n")[:-1]:
            if '"<board>"' not in line:
                print(line)
    except MemoryError:
        sys.print_exception(error)


def paste():
    """Return a program's bytes, read in raw paste mode."""
    write(b"R\x01" + _WINDOW.to_bytes(2, "little") + b"\x01")
    code = bytearray()
    left = _WINDOW
    while True:
        byte = key()
        if byte in (_CTRL_C, _CTRL_D):
            write("\x04")
            return b"raise KeyboardInterrupt" if byte == _CTRL_C else bytes(code) or b"\n"
        code.append(byte)
        left -= 1
        if not left:
            write("\x01")
            left = _WINDOW
