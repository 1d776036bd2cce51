"""The names of metrics and attributes: OpenTelemetry's for GenAI, of one version, and our own."""

from typing import Final

VERSION: Final = "1.41.1"  # of the semantic conventions: the last with names for GenAI in it
SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/{VERSION}"

TOKEN_USAGE: Final = "gen_ai.client.token.usage"  # noqa: S105 - no password
TOKEN_BUCKETS: Final = [4**power for power in range(14)]
DURATION: Final = "gen_ai.client.operation.duration"
DURATION_BUCKETS: Final = [0.01 * 2**power for power in range(14)]  # seconds

OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 - no password
ERROR_TYPE: Final = "error.type"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_CREATION_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"

CHAT: Final = "chat"
EMBEDDINGS: Final = "embeddings"
INPUT: Final = "input"
OUTPUT: Final = "output"
UNKNOWN: Final = "unknown"

# The conventions' names of providers, by genai-prices' ids where these differ.
PROVIDERS: Final = {
    "aws": "aws.bedrock",
    "azure": "azure.ai.openai",
    "google": "gcp.gen_ai",
    "mistral": "mistral_ai",
    "moonshotai": "moonshot_ai",
    "x-ai": "x_ai",
}

COST: Final = "microbudget.cost"
REFUSALS: Final = "microbudget.refusals"
REFUSED: Final = "microbudget.refused"  # an event of a span
BUDGET: Final = "microbudget.budget."  # and one of the figures of a limit
LEFT_OUT: Final = "microbudget.budget.accounts_left_out"
ACCOUNT: Final = "microbudget.account"
AXIS: Final = "microbudget.axis"
WINDOW: Final = "microbudget.window"
REASON: Final = "microbudget.reason"
