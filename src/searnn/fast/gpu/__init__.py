"""Triton kernels; nothing here is imported where Triton is missing."""
