"""Copy this to secret.py, which git ignores, and fill it in."""

WIFI_NAME = ""
WIFI_PASSWORD = ""
API_KEY = ""

# What settings.py says of these holds where they are left out.
# BASE_URL = "https://llm.example/v1"
# MODEL = "small-model"
