"""Check a board's network: Wi-Fi, clock, name look-up, and the endpoint with its certificates."""

import calendar
import time

from budget_core.until import stamp
from budget_cpython.board.device import Device
from budget_cpython.board.doctor.finding import probe
from budget_cpython.finding import Finding, fails, ok, warning

PATIENCE_S = 120.0
_WEAK_DBM = -75
_OFF_S = 60
_SECRET = "in a copy of secret_example.py, and deploy it with --secrets"  # noqa: S105 - a hint
_JOIN_FIXES = {
    "wrong password": f"correct WIFI_PASSWORD {_SECRET}",
    "no access point": f"correct WIFI_NAME {_SECRET}, or bring the board nearer: most boards see "
    "networks of 2.4 GHz only",
}
_REFUSED = {
    401: f"correct API_KEY {_SECRET}",
    403: "give the API key access to the models, or use another key",
}


def check_wifi(device: Device) -> Finding:
    """Check that the board joins its Wi-Fi, and how strong the signal is."""
    found = probe(device, "wifi", PATIENCE_S)
    if "nameless" in found:
        return fails("no WIFI_NAME in a secret.py on the board", f"fill it in {_SECRET}")
    if "error" in found:
        error = found["error"]
        fixes = (fix for words, fix in _JOIN_FIXES.items() if words in error)
        other = "restart the access point and the board, or raise WIFI_TIMEOUT_S in settings.py"
        return fails(error, next(fixes, other))
    shown = f"{found['name']}, address {found['address']}"
    signal = found["signal"]
    if signal is None:
        return ok(shown)
    shown += f", signal {signal} dBm"
    if signal < _WEAK_DBM:
        return warning(shown, "bring the board nearer to its access point: this is weak")
    return ok(shown)


def check_clock(device: Device) -> Finding:
    """Check that the date is believed, and how far it is from this machine's."""
    found = probe(device, "clock")
    date = calendar.timegm((*found["date"], 0, 0, 0))
    off = date - round(time.time())
    shown = f"{stamp(date)}, {abs(off):,} s {'ahead of' if off > 0 else 'behind'} this machine's"
    if abs(off) <= 1:
        shown = f"{stamp(date)}, as this machine's"
    if not found["trusted"]:
        why = "no time server has set it" if found["sync"] else "it is before the deployed release"
        fix = "the board sets it at its start, once it reaches NTP_HOST of settings.py"
        if not found["sync"]:
            fix = "set the board's clock"
        return fails(f"{shown}; not believed: {why}, so no new day begins", fix)
    if abs(off) > _OFF_S:
        return warning(shown, "set the clock that is wrong; the board's day ends by its own")
    return ok(shown)


def check_name(device: Device) -> Finding:
    """Check that the name of the endpoint's host is found."""
    found = probe(device, "name", PATIENCE_S)
    host = found["host"]
    if "error" in found:
        fix = "correct BASE_URL in settings.py or secret.py, or the name server of the network"
        return fails(f"{host} is not found: {found['error']}", fix)
    return ok(f"{host} is {found['address']}" if found["address"] else f"{host} is found")


def check_endpoint(device: Device) -> Finding:
    """Check that the endpoint answers a request that costs no tokens, with its certificates."""
    found = probe(device, "endpoint", PATIENCE_S)
    url = found["url"]
    if "error" in found:
        return fails(f"{url}: {found['error']}", _why_unreached(url, found["error"]))
    status = found["status"]
    how = "over TLS, its certificate verified" if url.startswith("https") else "without encryption"
    shown = f"{url} answers {how}, in {found['ms']:,} ms"
    if status in _REFUSED:
        return fails(f"{shown}; but it refuses the key ({status})", _REFUSED[status])
    if status == 404:
        return ok(f"{shown}; it lists no models (404), so the key was not tried")
    if status >= 400:
        return warning(f"{shown}; but with the status {status}", "try again in some minutes")
    return ok(f"{shown}, and accepts the key")


def check_ledger(device: Device) -> Finding:
    """Check that the service of a fleet knows the board's account; nothing is drawn from it."""
    found = probe(device, "ledger", PATIENCE_S)
    account = f"the account {found['account']}"
    if "error" in found:
        fix = f"correct LEDGER in settings.py, or LEDGER_KEY {_SECRET}, or start the service"
        return fails(f"{account}: {found['error']}", fix)
    return ok(f"{account} has {found['left']} left" if found["left"] else f"{account}: no limit")


def _why_unreached(url: str, error: str) -> str:
    if "does not match" in error:
        return "correct BASE_URL: the server's certificate is for another name"
    if "CERT" in error or "certificate" in error:
        return (
            "deploy the root certificate that signs the server's as CA_FILE of settings.py; a "
            "clock that is wrong also makes it invalid"
        )
    if "SSL" in error or "TLS" in error:
        return "correct BASE_URL: is https right for that port? Or its server speaks no TLS 1.2"
    return "correct BASE_URL in settings.py or secret.py, or start what should answer there"
