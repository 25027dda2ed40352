"""Train sequence models on the metric you care about."""
