"""A client of OpenAI-compatible chat completions."""
