"""The prices of models: the list, own tables, deployments, and the models that may answer."""
