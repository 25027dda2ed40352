"""Reports: tables for the terminal and pictures of learning curves."""
