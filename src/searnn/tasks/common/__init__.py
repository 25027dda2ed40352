"""What tasks share: their splits, their lexicons, all that is the same on pairs of texts, and the metrics."""
