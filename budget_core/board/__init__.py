"""The agent program of a microcontroller: its console, Wi-Fi, status and tools."""
