"""The units that vendors bill: where a report has each, its price, and its bound in a request.

Reading, holding and marking follow from this table: what no row covers marks a call as not fully
priced. Plain tokens, with those of a cache and of reasoning, are read by `budget_core.usage`.
"""

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


@dataclass(frozen=True, eq=False)
class BilledUnit:
    """A unit that vendors bill.

    - `vendors`: those that bill it, by their ids in genai-prices up to an underscore.
    - `unit`, `price`: its names in genai-prices.
    - `where`: its place in a usage report, names joined by dots, an entry of a list by its modality
      or its time to live; empty where reports do not say it.
    - `bound`: what limits it in a request: the size of the `prompt`, or a field; empty for nothing.
    - `apart`: whether it marks the calls of vendors that name it and are not in the row.
    - `beside`: the place that a report also names if it bills the unit; empty for none. Without it
      a unit marks the call, as that of another vendor does.
    """

    vendors: frozenset[str]
    unit: str
    where: str
    price: str
    bound: str
    apart: bool
    beside: str = ""


def _row(
    vendors: str,
    unit: str,
    where: str,
    bound: str = "",
    price: str = "",
    apart: bool = True,
    beside: str = "",
) -> BilledUnit:
    price = price or unit.removesuffix("_tokens") + "_mtok"
    return BilledUnit(frozenset(vendors.split()), unit, where, price, bound, apart, beside)


def _part(vendors: str, unit: str, where: str, bound: str = "") -> BilledUnit:
    """Return a row of tokens that cost as others do where they have no price of their own."""
    return _row(vendors, unit, where, bound, apart=False)


_CHAT_IN = "azure baseten google groq huggingface openai openrouter ovhcloud quicksilverpro"
_CHAT_OUT = f"{_CHAT_IN} deepseek fireworks x-ai"
_CLAUDE = "anthropic aws azure google"
_REALTIME = "azure openai"
_MODALITIES = (  # of Gemini's lists
    ("AUDIO", "audio"),
    ("DOCUMENT", "image"),
    ("IMAGE", "image"),
    ("VIDEO", "video"),
)
_LISTS = (
    ("promptTokensDetails", "input_{}_tokens", "prompt"),
    ("cacheTokensDetails", "cache_{}_read_tokens", "prompt"),
    ("candidatesTokensDetails", "output_{}_tokens", "max_tokens"),
    ("toolUsePromptTokensDetails", "input_{}_tokens", ""),
    ("toolUsePromptTokensDetails", "input_{}_tool_tokens", ""),
)

UNITS: "Final" = (
    # Chat completions
    _row(_CHAT_IN, "input_audio_tokens", "prompt_tokens_details.audio_tokens", "prompt"),
    _row(_CHAT_OUT, "output_audio_tokens", "completion_tokens_details.audio_tokens", "max_tokens"),
    # Images
    _part("openai", "input_text_tokens", "input_tokens_details.text_tokens", "prompt"),
    _row(
        "openai",
        "input_image_tokens",
        "input_tokens_details.image_tokens",
        "prompt",
        beside="input_tokens_details.text_tokens",
    ),
    _part("openai", "output_text_tokens", "output_tokens_details.text_tokens", "n"),
    _row(
        "openai",
        "output_image_tokens",
        "output_tokens_details.image_tokens",
        "n",
        beside="input_tokens_details.image_tokens",
    ),
    # Realtime, and transcriptions by tokens
    _part(_REALTIME, "input_text_tokens", "input_token_details.text_tokens"),
    _row(_REALTIME, "input_audio_tokens", "input_token_details.audio_tokens"),
    _row(_REALTIME, "input_image_tokens", "input_token_details.image_tokens"),
    *(
        _row(
            _REALTIME,
            f"cache_{kind}_read_tokens",
            f"input_token_details.cached_tokens_details.{kind}_tokens",
        )
        for kind in ("text", "audio", "image")
    ),
    _part(_REALTIME, "output_text_tokens", "output_token_details.text_tokens"),
    _row(_REALTIME, "output_audio_tokens", "output_token_details.audio_tokens"),
    _row("x-ai", "audio_seconds", "billable_audio_seconds", price="audio_hours"),
    _row("x-ai", "input_text_messages", "input_text_messages", price="input_text_messages_kcount"),
    # Sounds, speech, pages
    _row("openai", "audio_seconds", "seconds", "file", "audio_hours"),
    _row("groq mistral", "input_audio_seconds", "", "file", "input_audio_hours"),
    _row("groq openai", "input_characters", "", "input", "input_mchars"),
    _row("mistral", "input_document_pages", "pages_processed", price="input_document_kpages"),
    _row("mistral", "input_annotated_document_pages", "", price="input_annotated_document_kpages"),
    # Writes to a cache
    _part(_CLAUDE, "cache_write_5m_tokens", "cache_creation.ephemeral_5m_input_tokens", "prompt"),
    _part(_CLAUDE, "cache_write_1h_tokens", "cache_creation.ephemeral_1h_input_tokens", "prompt"),
    _part("aws", "cache_write_5m_tokens", "cacheDetails.5m.inputTokens", "prompt"),
    _part("aws", "cache_write_1h_tokens", "cacheDetails.1h.inputTokens", "prompt"),
    # Gemini
    _part("google", "input_tool_tokens", "toolUsePromptTokenCount"),
    *(
        _part("google", unit.format("text"), f"{name}.TEXT.tokenCount", bound)
        for name, unit, bound in _LISTS
    ),
    *(
        _row("google", unit.format(kind), f"{name}.{modality}.tokenCount", bound)
        for name, unit, bound in _LISTS
        for modality, kind in _MODALITIES
    ),
    # Searches, and what they find
    _row(
        "anthropic",
        "web_searches",
        "server_tool_use.web_search_requests",
        "tools.max_uses",
        "web_searches_kcount",
    ),
    _row("perplexity", "web_searches", "num_search_queries", price="web_searches_kcount"),
    _row(
        "perplexity",
        "web_searches",
        "tool_calls_details.search_web.invocation",
        price="web_searches_kcount",
    ),
    _row("openai", "storage_searches", "", price="storage_searches_kcount"),
    _part("perplexity", "output_citation_tokens", "citation_tokens", "max_tokens"),
)
