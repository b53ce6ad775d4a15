"""What `benchmarks.producing` measures: a program for each producer, run in the environment that has it.

Each is given a URL, how many records, their size, and `loop` or `plain`; prints the CPU seconds from its first put to
its last record in the stream, and how many of its records are known to be there.
"""
