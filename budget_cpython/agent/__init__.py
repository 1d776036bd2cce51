"""The agent loop for servers: frozen configurations, events, tools side by side."""
