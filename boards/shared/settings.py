"""What the agent on this board may use, and where it finds what it needs."""

# The day, which outlives restarts: tokens, the UTC hour at which it begins, shares of it at which
# the model is told, what a cached token counts for. ALLOWANCE is what may be used of a day whose
# stored state is damaged.
DAILY_BUDGET = 50_000
RESET_HOUR_UTC = 0
DAY_WARNINGS = (0.8,)
CACHED_TOKEN_WEIGHT = 1
ALLOWANCE = 0

# Where the day is kept. The count that is stored is up to WRITE_AHEAD tokens ahead of what was
# used, so that a call of half of it is counted although the power fails in its midst; a power cut
# may cost as many. 0 stores the exact count after every call, and loses that call.
STATE = "/budget"
WRITE_AHEAD = 4_000

# A budget that boards share, at a service of `microbudget serve`: its URL, as in "http://host:8321",
# or "" for none, and the account there. This board draws on the account DEVICE below it, by
# default the number of its chip; secret.py has the LEDGER_KEY.
LEDGER = ""
LEDGER_ACCOUNT = "boards"
DEVICE = ""

# One turn: LLM calls, tokens, tokens of one answer, tool calls, seconds; shares of them at which
# the model is told, and at which it loses its tools.
MAX_TURNS = 8
MAX_TOKENS = 12_000
MAX_TOKENS_PER_CALL = 500
MAX_TOOL_CALLS = 12
TIMEOUT_S = 120
NOTICE_AT = (0.6,)
TOOLS_OFF_AT = 0.9

# The model. CA_FILE has the root certificates for https, which a deploy puts there; TLS needs some
# 40 KB of heap while it talks.
BASE_URL = "https://llm.example/v1"
MODEL = "small-model"
CALL_TIMEOUT_S = 60
MAX_ANSWER_BYTES = 16_384
CA_FILE = "/ca.der"
SYSTEM_PROMPT = (
    "You are the agent of a small board. Answer in a few lines. Your tools read the notes on the "
    "board and the state of its chip. Obey every notice about your budget at once."
)

# The network: attempts after the first, and seconds that each may take.
WIFI_RETRIES = 4
WIFI_TIMEOUT_S = 15
NTP_HOST = "pool.ntp.org"
NTP_RETRIES = 4
NTP_TIMEOUT_S = 2

# Memory: how much of what was asked and answered goes into the next turn, how much of a note is
# read, and after how many bytes the heap is collected: often, so that it keeps in one piece and has
# the block of 16 KB that TLS asks for.
HISTORY_CHARS = 4_000
NOTES = "/notes"
MAX_NOTE_BYTES = 1_000
GC_THRESHOLD = 4096

# Whether the program shows what is typed: a serial line does not by itself.
ECHO = True
