"""Many runs side by side: which are to be run, the processes that run them, and the tables of the paper."""
