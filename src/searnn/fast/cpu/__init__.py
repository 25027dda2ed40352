"""Passes compiled by Numba; nothing here loads it before it is asked."""
