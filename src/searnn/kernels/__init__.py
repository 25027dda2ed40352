"""Triton kernels, each beside the plain code it replaces on a GPU; nothing here is imported where Triton is missing."""
