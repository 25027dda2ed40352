"""Acceleration: Triton kernels, passes compiled by Numba, CUDA graphs, and what they need to know of the host."""
