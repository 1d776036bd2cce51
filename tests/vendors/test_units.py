"""The table of billed units, against genai-prices' units and its reading of reports."""

from typing import Any

from genai_prices.data_snapshot import get_snapshot
from genai_prices.data_units import unit_data

from budget_cpython.vendors.units import UNITS

# What `read_usage` of the core counts.
OF_CORE = {
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_reasoning_tokens",
}
# What genai-prices reads and the table does not: the same reports are read as plain pages.
NOT_READ = {("mistral", "pages_processed", "input_annotated_document_pages")}


def place_of(path: Any) -> str:
    steps = [path] if isinstance(path, str) else path
    return ".".join(step if isinstance(step, str) else step.match.equals for step in steps)


def test_each_unit_has_the_names_of_genai_prices() -> None:
    for row in UNITS:
        assert unit_data[row.unit]["price_key"] == row.price, row


def test_each_row_has_vendors_of_genai_prices() -> None:
    known = {provider.id.partition("_")[0] for provider in get_snapshot().providers}
    for row in UNITS:
        assert row.vendors <= known, row


def test_the_table_has_all_that_genai_prices_reads() -> None:
    rows = {(vendor, row.where, row.unit) for row in UNITS for vendor in row.vendors}
    read = {
        (provider.id.partition("_")[0], place_of(mapping.path), mapping.dest)
        for provider in get_snapshot().providers
        for form in provider.extractors or ()
        for mapping in form.mappings
        if mapping.dest not in OF_CORE
    }
    live = {one for one in read if one[0] == "x-ai" and one[1].startswith(("input_t", "output_t"))}
    assert len(read) > 80
    assert read - rows - live == NOT_READ


def test_a_unit_that_reports_say_is_read_from_one_place_by_each_vendor() -> None:
    places = [(vendor, row.where, row.unit) for row in UNITS for vendor in row.vendors]
    assert len(places) == len({*places})
