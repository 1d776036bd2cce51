"""The garden: its pins, its water, its hours, and what the agent may use."""

# Each bed: its name, the pin of its valve, the pin of its sensor. These are a Pico 2 W's.
BEDS = (("beans", 14, 27), ("tomatoes", 15, 26))

# What a sensor reads in dry soil and in water: measure both, `/water` shows what follows.
DRY = 52_000
WET = 22_000

# The water of a day (UTC), which outlives restarts: calls of the tool, seconds that a valve is
# open in all, and in one call. A day whose stored count is damaged has none.
WATER_CALLS_A_DAY = 6
WATER_SECONDS_A_DAY = 120
WATER_SECONDS_A_CALL = 60
WATER_STATE = "/water"

# The hours (UTC) at which the agent is asked this by itself.
HOURS_UTC = (5, 18)
ROUND = "Read every bed. Water those below 40 %, then say in two lines what you did."

# A garden on a battery sleeps between full hours, and asks in those of HOURS_UTC. It waits for a
# line for so many seconds before it sleeps.
SLEEPS = False
AWAKE_S = 30

# A watchdog resets a board that hangs: whose program has made no step for so many seconds. They are
# more than TIMEOUT_S, CALL_TIMEOUT_S and two attempts to join the Wi-Fi together. 0 is none.
WATCHDOG_S = 0

# The tokens of a day, which outlive restarts, too, as in the other boards' settings.
DAILY_BUDGET = 50_000
RESET_HOUR_UTC = 0
DAY_WARNINGS = (0.8,)
CACHED_TOKEN_WEIGHT = 1
ALLOWANCE = 0
STATE = "/budget"
WRITE_AHEAD = 4_000

# A budget that boards share, as in the other boards' settings: "" for none.
LEDGER = ""
LEDGER_ACCOUNT = "boards"
DEVICE = "garden"

# One turn: LLM calls, tokens, tokens of one answer, tool calls, seconds, in which water runs;
# shares of them at which the model is told, and at which it loses its tools.
MAX_TURNS = 8
MAX_TOKENS = 12_000
MAX_TOKENS_PER_CALL = 500
MAX_TOOL_CALLS = 12
TIMEOUT_S = 300
NOTICE_AT = (0.6,)
TOOLS_OFF_AT = 0.9

# The model; on a board one that it can reach. CA_FILE has the root certificates for https; a deploy
# sends those of the endpoint.
BASE_URL = "http://127.0.0.1:8080/v1"
MODEL = "scripted"
CALL_TIMEOUT_S = 60
MAX_ANSWER_BYTES = 16_384
CA_FILE = "/ca.der"
SYSTEM_PROMPT = (
    "You look after a garden. Soil from 40 to 80 % is right for every bed. Water as little as "
    "does it: ten seconds raise a bed by about 13 %. If water is refused, the day has too little "
    "left: ask for no more than is left, or wait until the next day. Answer in a few lines."
)

# The network: attempts after the first, and seconds that each may take.
WIFI_RETRIES = 4
WIFI_TIMEOUT_S = 15
NTP_HOST = "pool.ntp.org"
NTP_RETRIES = 4
NTP_TIMEOUT_S = 2

# Memory: how much of what was asked and answered goes into the next turn, and after how many bytes
# the heap is collected: often, so that it keeps in one piece and has the block of 16 KB that TLS
# asks for.
HISTORY_CHARS = 2_000
GC_THRESHOLD = 4096

# Whether the program shows what is typed: a serial line does not by itself.
ECHO = True
