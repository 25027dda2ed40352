"""Data: reading files, vocabularies, examples in memory, batches and their shards, and the public data sets."""
