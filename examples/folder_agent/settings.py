"""What the agent may use, and where it keeps count."""

MAX_TURNS = 8
MAX_TOKENS = 30_000
MAX_TOKENS_PER_TURN = 1_000
MAX_TOOL_CALLS = 20
TIMEOUT_S = 120
NOTICE_AT = (0.6, 0.8)
TOOLS_OFF_AT = 0.9

DAILY_BUDGET = 200_000
SCRIPTED_MODEL = "scripted"
FALLBACK_MODEL = "scripted-mini"

MAX_LISTED_FILES = 50
MAX_READ_BYTES = 4_000
CALL_TIMEOUT_S = 60

STATE = ".local/demo/budget"
CA_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem")

QUESTION = "Read the files you are given and tell me in a few lines what they are about."
SYSTEM_PROMPT = (
    "You answer questions about the files of one folder. List them first, then read what you need. "
    "Obey every notice about your budget at once."
)
