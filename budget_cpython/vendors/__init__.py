"""The APIs of vendors of models: formats of requests and answers, and the units that they bill."""
