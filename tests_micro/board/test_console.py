"""The chat over a serial line: what is typed, what is answered, what ends it."""

import asyncio
import io
import select
from time import gmtime

from budget_core.board.console import HELP, Console, main, trimmed
from budget_core.board.line_input import Keyboard
from budget_core.board.make_agent import make_client, make_operative
from budget_core.board.tools import chip_tool, note_tools
from budget_core.config import DailyBudgetConfig, Enforcement
from budget_core.daily_tracker import DailyBudgetTracker
from budget_core.errors import ProviderError
from budget_core.memory_store import InMemoryBudgetStore
from budget_core.wall_clock import BUILT, DAY, WALL, WallClock, epoch_offset
from tests_micro.script import SHOUT, TOOLS, Script, calls, says
from tests_micro.support import FakeClock, module_or_skip, raises, raises_async, temp_folder
from tests_micro.wire import Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

UP = b"\x1b[A"
DELETE = b"\x1b[3~"


class Settings:
    MAX_TURNS = 4
    MAX_TOKENS = 5000
    MAX_TOKENS_PER_CALL = 50
    MAX_TOOL_CALLS = 8
    TIMEOUT_S = 30
    NOTICE_AT = (0.9,)
    TOOLS_OFF_AT = None
    SYSTEM_PROMPT = "Be brief."
    HISTORY_CHARS = 400
    BASE_URL = "http://127.0.0.1:1/v1"
    MODEL = "small"
    CALL_TIMEOUT_S = 5
    MAX_ANSWER_BYTES = 1000
    CA_FILE = "/no/such/ca.pem"


class Typist:
    """A keyboard that types lines; one that is an error is raised in place of a line."""

    def __init__(self, *lines: "Any") -> None:
        self.lines = list(lines)

    async def line(self, prompt: str) -> str | None:
        line = self.lines.pop(0) if self.lines else None
        if isinstance(line, BaseException):
            raise line
        result: str | None = line
        return result


class Chat:
    """A chat that was held: what was shown, what the model was sent, what the day has used."""

    def __init__(self, *lines: "Any", answers: "Any" = (), cap: int | None = 1000) -> None:
        self.shown: list[str] = []
        self.script = Script(*(answers or [says("Fine.")]))
        config = DailyBudgetConfig(cap, enforcement=Enforcement.CUTOFF)
        self.store = InMemoryBudgetStore()
        self.daily = DailyBudgetTracker(config, FakeClock(BUILT), self.store, write_ahead=500)
        operative = make_operative(Settings, self.script, self.daily, TOOLS)
        keyboard = Typist(*lines)
        self.console = Console(Settings, operative, self.daily, keyboard, self.shown.append)
        self.console.run()
        self.left = keyboard.lines

    @property
    def text(self) -> str:
        """All that was shown."""
        return "\n".join(self.shown)


def test_a_line_is_a_turn_and_shows_the_answer_and_what_is_left() -> None:
    chat = Chat("What now?")
    assert chat.shown[0] == "Fine."
    assert chat.shown[1].startswith("[100 tokens in 1 call; today 100/1000 tokens, 900 left")
    assert [message["role"] for message in chat.script.sent[0]] == ["system", "user"]


def test_the_second_turn_continues_from_the_first() -> None:
    chat = Chat("One?", "Two?", answers=[says("First."), says("Second.")])
    sent = [message["content"] for message in chat.script.sent[1]]
    assert sent == ["Be brief.", "One?", "First.", "Two?"]


def test_the_next_turn_is_sent_no_tool_call() -> None:
    chat = Chat("Shout!", "And now?", answers=[SHOUT, says("Done."), says("Nothing.")])
    sent = [message["content"] for message in chat.script.sent[2]]
    assert sent == ["Be brief.", "Shout!", "Done.", "And now?"]


def test_tools_are_called_and_named() -> None:
    chat = Chat("Shout!", answers=[SHOUT, calls(("fail", {})), says("Done.")])
    assert chat.shown[:3] == ["  shout: completed", "  fail: failed", "Done."]
    assert "300 tokens in 3 calls" in chat.shown[3]


def test_a_blank_line_does_nothing() -> None:
    chat = Chat("", "   ")
    assert chat.shown == []
    assert chat.script.sent == []


def test_budget_and_help_ask_no_model() -> None:
    chat = Chat("/budget", "/help", "/nonsense")
    assert "today 0/1000 tokens, 1000 left" in chat.shown[0]
    assert chat.shown[1:] == [HELP, HELP]
    assert chat.script.sent == []


def test_the_budget_line_says_when_the_day_ends_where_the_clock_is_believed() -> None:
    module: Any = __import__("budget_core.board.console", None, None, ("WALL",))
    try:
        module.WALL = WallClock(FakeClock(BUILT))
        year, month, day = gmtime(BUILT + DAY - epoch_offset(gmtime))[:3]
        assert Chat("/budget").text.endswith(
            f" left until {year}-{month:02}-{day:02} 00:00 UTC, in 1 d"
        )
        module.WALL = WallClock(FakeClock(BUILT), needs_sync=True)
        assert Chat("/budget").text.endswith(" left, clock not set")
    finally:
        module.WALL = WALL


def test_an_unlimited_day_says_so() -> None:
    assert "today 0 tokens, no limit" in Chat("/budget", cap=None).text


def test_quit_the_end_of_input_and_ctrl_c_at_the_prompt_end_the_chat() -> None:
    assert Chat("/quit", "Never.").left == ["Never."]
    assert Chat(None, "Never.").left == ["Never."]
    assert Chat(KeyboardInterrupt(), "Never.").left == ["Never."]


def test_the_exact_count_is_stored_when_the_chat_ends() -> None:
    state = Chat("What now?").store.load()
    assert state is not None
    assert (state["tokens"], state["ahead"]) == (100, 0)


def test_an_endpoint_that_fails_ends_only_its_turn() -> None:
    failing = ProviderError(503, "overloaded")
    chat = Chat("One?", "Two?", answers=[failing, says("Here again.")])
    assert chat.shown[0] == "error: ProviderError: overloaded (HTTP 503)"
    assert "Here again." in chat.shown
    asked = [message["content"] for message in chat.script.sent[1]]
    assert asked == ["Be brief.", "Two?"]


def test_an_error_outside_a_run_ends_only_its_turn() -> None:
    chat = Chat()

    def refuse(*_: object) -> None:
        raise OSError(28)

    operative: Any = chat.console.operative
    operative.begin = refuse
    chat.console.obey("What now?")
    assert chat.shown[0].startswith("error: OSError")


def test_ctrl_c_ends_a_turn_and_counts_its_call_but_not_the_chat() -> None:
    held: list[str] = []
    tasks: list[Any] = []

    async def hang(asked: "Any") -> "Any":
        try:
            tasks.append(asyncio.create_task(interrupt()))
            await asyncio.sleep(60)
        finally:
            held.append("let go")

    async def interrupt() -> None:
        raise KeyboardInterrupt

    chat = Chat("One?", "Two?", answers=[hang, says("Here.")])
    assert held == ["let go"]
    assert chat.shown[0] == "(cancelled)"
    assert "Here." in chat.shown
    assert chat.daily.iterations_seen == 2
    assert chat.daily.usage_seen["estimated"] == 1


class at_each_turn:  # noqa: N801 - used like a function
    """Within it, a chat calls this before each turn, as on a board with a network."""

    def __init__(self, rejoin: "Any") -> None:
        self.device: Any = __import__("budget_core.board.device", None, None, ("rejoin",))
        self.rejoin = rejoin

    def __enter__(self) -> None:
        self.device.rejoin = self.rejoin

    def __exit__(self, *error: object) -> None:
        self.device.rejoin = None


def test_the_network_is_joined_again_before_each_turn() -> None:
    joined: list[int] = []
    with at_each_turn(lambda: joined.append(1)):
        Chat("One?", "/budget", "Two?", answers=[says("First."), says("Second.")])
    assert len(joined) == 2


def test_ctrl_c_while_the_network_is_joined_ends_the_turn_but_not_the_chat() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with at_each_turn(interrupt):
        chat = Chat("One?", "/budget")
    assert chat.script.sent == []
    assert chat.text.startswith("today 0/1000 tokens")


def test_a_spent_day_is_cut_off_without_a_call() -> None:
    chat = Chat("One?", "Two?", answers=[says("Fine.")], cap=100)
    assert len(chat.script.sent) == 1
    assert chat.text.count("The daily budget is spent") == 1
    assert "today 100/100 tokens, 0 left" in chat.shown[-1]


def test_a_store_that_fails_is_shown() -> None:
    chat = Chat("/quit")

    def fail(state: object) -> None:
        raise OSError(28)

    store: Any = chat.store
    store.save = fail
    chat.daily.record({"total_tokens": 600})
    assert "counts as spent: " in chat.console.budget_line()


def test_a_conversation_loses_its_oldest_turns_first() -> None:
    system = {"role": "system", "content": "s" * 50}
    turns = [{"role": role, "content": role * 5} for role in ("user", "assistant") * 3]
    assert trimmed([system] + turns, 1000) == [system] + turns
    assert trimmed([system] + turns, 140) == [system] + turns[2:]
    assert trimmed([system] + turns, 65) == [system] + turns[4:]
    assert trimmed([system] + turns, 64) == [system]
    assert trimmed([system], 0) == [system]


def test_a_line_is_typed_with_mistakes() -> None:
    def typed(data: bytes, most: int = 20) -> "tuple[str | None, str]":
        lines, shown = read_lines(data, most=most)
        return lines[0], shown.split("> ")[1]

    assert typed(b"hi\r") == ("hi", "hi\r\n")
    assert typed(b"hy\x7fi\n") == ("hi", "hy\b \bi\r\n")
    assert typed(b"\b\x15no\x15yes\r") == ("yes", "no" + "\b \b" * 2 + "yes\r\n")
    assert typed("größe €\r".encode()) == ("größe €", "größe €\r\n")
    assert typed("ö\x7fo\r".encode()) == ("o", "ö\b \bo\r\n")
    assert typed(b"a" + UP + b"b" + DELETE + b"c\x1bOHd\t\x00\r")[0] == "abcd"
    assert typed(b"a\xff\xff\xff\xffb\r")[0] == "ab"
    assert typed(b"abcd\r", 3) == ("abc", "abc\a\r\n")
    assert typed(b"a\x1bb\x1b\x1b[Ac\r")[0] == "ac"
    assert typed(b"unfinished")[0] is None


def read_lines(data: bytes, echo: bool = True, most: int = 100) -> "tuple[list[str | None], str]":
    shown: list[str] = []
    lines: list[str | None] = [""]
    with temp_folder() as folder:
        with open(folder + "/typed", "wb") as file:
            file.write(data)
        with open(folder + "/typed", "rb") as file:
            keyboard = Keyboard(echo, most, pollable(file), shown.append)
            while lines[-1] is not None:
                lines.append(asyncio.run(keyboard.line("> ")))
    return lines[1:], "".join(shown)


def pollable(file: "Any") -> "Any":
    """Return a file that can be polled: littlefs and FAT have none."""
    poll = select.poll()
    try:
        poll.register(file, select.POLLIN)
        poll.poll(0)
    except OSError:
        return Pollable(file)
    return file


class Pollable(io.IOBase):
    """A file that always has something to read, or its end."""

    def __init__(self, file: "Any") -> None:
        self.read = file.read

    def ioctl(self, request: int, events: int) -> int:
        """Answer MicroPython's poll."""
        return events if request == 3 else -1


def test_lines_end_with_cr_lf_or_both_and_input_with_its_end() -> None:
    lines, shown = read_lines(b"one\rtwo\r\nthree\n\nlast")
    assert lines == ["one", "two", "three", "", None]
    assert shown == "> one\r\n> two\r\n> three\r\n> \r\n> last\r\n"


def test_ctrl_d_ends_input_at_an_empty_line_only() -> None:
    assert read_lines(b"on\x04e\r\x04never\r")[0] == ["one", None]


def test_nothing_is_echoed_where_the_terminal_does_it() -> None:
    assert read_lines(b"one\r", echo=False)[1] == "> > \r\n"


def test_waiting_for_a_key_lets_everything_else_go_on() -> None:
    class Waiting:
        asked = 0

        def poll(self, _: int) -> "list[int]":
            self.asked += 1
            return [1] if done else []

    done: list[str] = []
    shown: list[str] = []

    async def other() -> None:
        await asyncio.sleep(0)
        done.append("done")

    async def both(keyboard: "Any") -> str | None:
        task = asyncio.create_task(other())
        line: str | None = await keyboard.line("")
        await task
        return line

    with temp_folder() as folder:
        with open(folder + "/typed", "wb") as file:
            file.write(b"hi\r")
        with open(folder + "/typed", "rb") as typed:
            keyboard: Any = Keyboard(False, 100, typed, shown.append)
            keyboard._poll = Waiting()
            assert asyncio.run(both(keyboard)) == "hi"


def test_notes_are_listed_and_read_and_nothing_else_is() -> None:
    with temp_folder() as folder:
        notes = folder + "/notes"
        listing, reading = note_tools(notes, 8)
        assert listing.run() == "(no notes)"
        __import__("os").mkdir(notes)
        __import__("os").mkdir(notes + "/sub")
        for name, text in (("b.txt", "äöüäöü"), ("a.txt", "short"), (".hidden", "x")):
            with open(notes + "/" + name, "wb") as file:
                file.write(text.encode())
        with open(folder + "/secret.py", "wb") as file:
            file.write(b"API_KEY")
        assert listing.run() == "a.txt\t5\nb.txt\t12"
        assert reading.run(path="a.txt") == "short"
        assert reading.run(path="b.txt") == "äöüä\n(cut here)"
        for path in ("../secret.py", "sub", ".hidden", "", ".", notes + "/a.txt"):
            assert "no note" in str(raises(ValueError, reading.run, path=path))


def test_a_note_is_cut_between_characters_and_one_that_is_no_text_is_refused() -> None:
    with temp_folder() as folder:
        reading = note_tools(folder, 3)[1]
        with open(folder + "/a", "wb") as file:
            file.write("äöü".encode())
        with open(folder + "/b", "wb") as file:
            file.write(b"\xff\xfe\xfd\xfc\xfb")
        assert reading.run(path="a") == "ä\n(cut here)"
        assert "not text" in str(raises(ValueError, reading.run, path="b"))


async def test_a_client_comes_from_the_settings_unless_the_secrets_say_otherwise() -> None:
    class Secret:
        API_KEY = "sk-Secret-0123456789"
        BASE_URL = "http://other.example/v1"
        MODEL = "large"

    assert repr(make_client(Settings, None)) == "ChatClient('http://127.0.0.1:1/v1', 'small')"
    client = make_client(Settings, Secret)
    assert repr(client) == "ChatClient('http://other.example/v1', 'large')"
    wire = Wire()
    await raises_async(ProviderError, wire.connected, client.chat, [])
    assert Secret.API_KEY.encode() in wire.sent


def test_certificates_that_are_not_there_are_named() -> None:
    class Secure(Settings):
        BASE_URL = "https://llm.example/v1"

    module_or_skip("ssl", "tls")
    assert "'/no/such/ca.pem'" in str(raises(ValueError, make_client, Secure, None))
    main(Secure, [])  # prints it, and ends


def test_the_chip_reports_its_state() -> None:
    assert "21.5 degrees Celsius" in chip_tool(lambda: 21.46).run()
    assert "degrees" not in chip_tool().run()
    assert chip_tool().run().startswith("up for ")
