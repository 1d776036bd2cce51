"""The options of a deploy: checked on this machine, and then against the connected board."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from budget_cpython.board.build import Form, build_board
from budget_cpython.board.certificates import endpoint_roots, file_roots
from budget_cpython.board.check import check_board, settings_of
from budget_cpython.board.deploy import Say
from budget_cpython.board.device import Device
from budget_cpython.board.errors import BoardError, UsageError
from budget_cpython.board.fit import (
    heap_needed,
    measure,
    parts,
    stack_needed,
    unfit,
    unfit_flash,
    unfit_stack,
)
from budget_cpython.board.known_boards import board_files
from budget_cpython.board.plan import Plan
from budget_cpython.board.programs import SECRETS, SETTINGS
from budget_cpython.board.reach import left_out, reach_of
from budget_cpython.board.secret_file import EXAMPLE, deployed_url, read_secrets
from budget_cpython.board.state import find_state
from budget_cpython.board.target import mismatches


@dataclass
class Order:
    """A board's folder, the form of the core, and what else to copy; `say` gets a line at a time.

    `more` are modules and rooms to add, `without` rooms to leave out, `secret_path` and `ca_path`
    files on this machine. Raises `UsageError` if one of them is wrong. With `force` a board that
    does not suit is a warning.
    """

    board: Path
    form: Form
    say: Say
    more: Collection[str] = ()
    without: Collection[str] = ()
    secret_path: Path | None = None
    ca_path: Path | None = None
    force: bool = False

    def __post_init__(self) -> None:
        modules = left_out(self.board, self.more, self.without)
        self.needs_secrets = check_board(self.board)
        self.settings = settings_of(self.board) or {}
        self.secrets = None if self.secret_path is None else read_secrets(self.secret_path)
        self.roots = None if self.ca_path is None else file_roots(self.ca_path)
        self.build = build_board(self.board, self.form, modules)
        if unknown := reach_of(self.board).unknown:
            self.say(f"all modules of the core are copied, used or not: {unknown}")

    def plan(self, device: Device) -> Plan:
        """Return the plan for a board, after saying the memory that it has and needs.

        Raises `BoardError` if the board, or the secrets, do not suit.
        """
        self._refuse(mismatches(self.board, device, self.form))
        has = measure(device)
        self.say(f"the board has: {has}")
        url, on_tls = self._endpoints(device)
        needed = heap_needed(self.board, self.form, bool(on_tls), device.identity)
        if needed:
            self.say(f"the program needs: {parts(needed)}")
        unfilled = [] if self.secrets is None else self.secrets.unfilled(self.board, url)
        stack = stack_needed(self.board, device.identity)
        self._refuse(unfilled + unfit(needed, has, self.form) + unfit_stack(stack, has))
        build = self.build.adding(self._certificates(device, on_tls))
        plan = Plan(device, build, {} if self.secrets is None else {SECRETS: self.secrets.data})
        self._refuse(unfit_flash(plan.flash_needed(has.block), has, self.form))
        return plan

    def missing(self, plan: Plan) -> Iterator[str]:
        """Yield what a board lacks still, after its deploy or before: its state or its secrets."""
        if plan.device.digests([SETTINGS]):
            state, made = find_state(plan.device)
            if not made:
                yield (
                    f"the budget's state in {state} is gone: the board counts its day as spent; "
                    "`microbudget board reset` makes a new one"
                )
        example = board_files(self.board).get(EXAMPLE)
        if self.needs_secrets and example and not self._has(plan, SECRETS):
            yield (
                f"the board has no {SECRETS}: fill in a copy of {example} and deploy it with "
                "--secrets"
            )
        _, on_tls = self._endpoints(plan.device)
        if on_tls and self._ca_file and not self._has(plan, self._ca_file):
            yield (
                f"the board has no {self._ca_file} with certificates for {on_tls[0]}: name the "
                "endpoint in BASE_URL, and deploy where it can be reached, or with --ca FILE"
            )

    @property
    def _ca_file(self) -> str:
        path = str(self.settings.get("CA_FILE", ""))
        return "/" + path.lstrip("/") if path else ""

    def _has(self, plan: Plan, path: str) -> bool:
        return path in plan.wanted or bool(plan.device.digests([path]))

    def _endpoints(self, device: Device) -> tuple[str, list[str]]:
        """Return the model's URL, and those of the model and the ledger that are https."""
        named = deployed_url(device) if self.secrets is None else self.secrets.base_url
        url = named or str(self.settings.get("BASE_URL", ""))
        urls = [url, str(self.settings.get("LEDGER", ""))]
        return url, [each for each in urls if each.startswith("https:")]

    def _certificates(self, device: Device, urls: list[str]) -> dict[str, bytes]:
        """Return the root certificates by their path on the board: new ones, or those there."""
        if not (urls and self._ca_file):
            if self.roots is not None:
                raise UsageError("--ca is for an https BASE_URL or LEDGER, and a CA_FILE")
            return {}
        roots = dict(self.roots or {})
        try:
            for url in [] if roots else urls:
                roots |= endpoint_roots(url)
        except BoardError as error:
            self.say(f"warning: {error}")
            return device.get(device.digests([self._ca_file]))
        self.say(f"certificates for {' and '.join(urls)}: {', '.join(roots.values())}")
        return {self._ca_file: b"".join(roots)}

    def _refuse(self, trouble: list[str]) -> None:
        if trouble and not self.force:
            hint = "nothing was changed; --force deploys all the same"
            raise BoardError("\n".join([*trouble, hint]))
        for line in trouble:
            self.say(f"warning: {line}")
