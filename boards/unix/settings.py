"""What the agent on this board may use, and where it keeps count."""

ITERATION_BUDGET = 8
TOKEN_BUDGET = 30_000
WARNING_THRESHOLDS = (0.6, 0.8)
TOOL_STRIP_THRESHOLD = 0.9

DAILY_BUDGET = 50_000
SCRIPTED_MODEL = "scripted"
FALLBACK_MODEL = "scripted-mini"

MAX_LISTED_FILES = 50
MAX_READ_BYTES = 4_000
TIMEOUT_S = 60

STATE_FILE = ".local/demo/budget-state.json"
CA_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem")

QUESTION = "Read the files you are given and tell me in a few lines what they are about."
SYSTEM_PROMPT = (
    "You answer questions about the files of one folder. List them first, then read what you need. "
    "Heed every notice about your budget at once."
)
